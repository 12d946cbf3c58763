/* Before anything is drawn. Without scripts all claims stay open: nothing is out of reach. */
document.querySelectorAll(".claim").forEach((claim) => { claim.open = "#" + claim.id === location.hash; });
