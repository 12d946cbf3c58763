document.documentElement.classList.add("js");
try { const t = localStorage.getItem("featavg-theme"); if (t) document.documentElement.dataset.theme = t; } catch (e) { /* a private window remembers nothing */ }
