/* The page's own script: draws figures as they come into view, in the colours of the theme. */
(() => {
  "use strict";
  const root = document.documentElement;
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];
  const described = new Map(all("script[data-panels]").map((s) => [s.dataset.panels, s]));
  const coarse = matchMedia("(pointer: coarse)").matches;

  /* "@averaged:0.5/0.2" -> the palette's colour, half way to the paper, at a fifth of its strength. */
  const channel = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
  function resolver() {
    const style = getComputedStyle(root);
    const value = (name) => channel(style.getPropertyValue("--" + name).trim());
    const paper = value("paper");
    return (token) => {
      const [, name, share, alpha] = /^@([a-z-]+)(?::([\d.]+))?(?:\/([\d.]+))?$/.exec(token);
      const mixed = value(name).map((c, i) => Math.round(c * (share ?? 1) + paper[i] * (1 - (share ?? 1))));
      return `rgba(${mixed.join(",")},${alpha ?? 1})`;
    };
  }
  function coloured(node, resolve) {
    if (typeof node === "string") return node.startsWith("@") ? resolve(node) : node;
    if (Array.isArray(node)) return typeof node[0] === "number" && typeof node[1] !== "string" ? node : node.map((n) => coloured(n, resolve));
    if (node && typeof node === "object")
      return Object.fromEntries(Object.entries(node).map(([k, v]) => [k, coloured(v, resolve)]));
    return node;
  }

  const font = getComputedStyle(document.body).fontFamily;
  function layoutOf(panel, width, resolve) {
    const axis = (given) => ({
      gridcolor: resolve("@grid"), zerolinecolor: resolve("@line"), linecolor: resolve("@faint"),
      tickcolor: resolve("@faint"), automargin: true, zeroline: false, ...given,
      tickfont: { size: given.type === "log" ? 10 : 11.5, color: resolve("@soft") },
      title: { ...given.title, standoff: 10, font: { size: 12.5, color: resolve("@soft") } },
    });
    const height = Math.round(Math.min(Math.max(width * panel.aspect, 250), 480));
    return {
      ...panel.layout, xaxis: axis(panel.layout.xaxis), yaxis: axis(panel.layout.yaxis),
      width, height, margin: { l: 8, r: 12, t: 10, b: 8, pad: 4 },
      annotations: (panel.layout.annotations || []).map((a) => ({ ...a, font: { size: 11.5, ...a.font } })),
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", showlegend: false,
      font: { family: font, size: 12, color: resolve("@ink") },
      hoverlabel: { bgcolor: resolve("@raised"), bordercolor: resolve("@line"), font: { family: font, size: 12, color: resolve("@ink") } },
      hovermode: "closest", dragmode: coarse ? false : "zoom",
    };
  }
  /* A list of what there is, not of what is taken away: no button of a later version can creep in. */
  const config = {
    modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]],
    displaylogo: false, showLink: false, showEditInChartStudio: false, showSendToCloud: false,
    plotlyServerURL: "", topojsonURL: "", responsive: false, scrollZoom: false,
    displayModeBar: coarse ? false : "hover",
  };

  function fitText(trace, width) {
    if (trace.type !== "heatmap" || !trace.texttemplate) return trace;
    const size = Math.min(12, (0.84 * width) / trace.x.length / 3.6);
    return size < 6 ? { ...trace, texttemplate: "", showscale: true } : { ...trace, textfont: { size } };
  }

  function draw(figure) {
    const source = described.get(figure.dataset.figure);
    const panels = JSON.parse(source.textContent);
    const resolve = resolver();
    const hidden = new Set(all(".legend [aria-pressed=false]", figure).map((b) => b.dataset.series));
    all(".canvas", figure).forEach((canvas, i) => {
      const width = Math.floor(canvas.parentElement.clientWidth);
      const panel = coloured(panels[i], resolve);
      const data = panel.data.map((t) => ({ ...fitText(t, width), visible: !hidden.has(t.legendgroup) }));
      canvas.dataset.width = width;
      Plotly.react(canvas, data, layoutOf(panel, width, resolve), config);
    });
    figure.dataset.drawn = root.dataset.theme || "system";
  }

  const figures = all("figure.plot");
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries.filter((e) => e.isIntersecting)) {
      seen.unobserve(entry.target);
      draw(entry.target);
    }
  }, { rootMargin: "600px 0px" });
  figures.forEach((figure) => seen.observe(figure));

  /* After a change of theme or width: forget what is far away, redraw what is near. */
  function again() {
    for (const figure of figures.filter((f) => f.dataset.drawn)) {
      delete figure.dataset.drawn;
      seen.observe(figure);
    }
  }
  let pause;
  addEventListener("resize", () => {
    clearTimeout(pause);
    pause = setTimeout(() => {
      const moved = (f) => all(".canvas", f).some((c) => c.dataset.width && +c.dataset.width !== Math.floor(c.parentElement.clientWidth));
      if (figures.some((f) => f.dataset.drawn && moved(f))) again();
    }, 150);
  });

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  all("[data-theme-toggle]").forEach((button) => button.addEventListener("click", () => {
    const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
    root.dataset.theme = (root.dataset.theme || system) === "dark" ? "light" : "dark";
    try { localStorage.setItem("featavg-theme", root.dataset.theme); } catch (e) { /* private window */ }
    again();
  }));

  all(".legend button").forEach((button) => button.addEventListener("click", () => {
    button.setAttribute("aria-pressed", button.getAttribute("aria-pressed") !== "true");
    draw(button.closest("figure"));
  }));

  /* What is shown: one verdict or all, and only claims that have every word of the search. */
  const filters = all("[data-filter]");
  const search = document.querySelector(".search");
  const claims = all(".claim");
  function choose() {
    const wanted = filters.find((b) => b.getAttribute("aria-pressed") === "true").dataset.filter;
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const claim of claims)
      claim.hidden = !((wanted === "all" || claim.dataset.verdict === wanted) && words.every((w) => claim.dataset.search.includes(w)));
    all(".theme-block").forEach((block) => { block.hidden = all(".claim", block).every((c) => c.hidden); });
    document.querySelector("main .empty").hidden = claims.some((c) => !c.hidden);
  }
  filters.forEach((button) => button.addEventListener("click", () => {
    filters.forEach((b) => b.setAttribute("aria-pressed", b === button));
    choose();
  }));
  if (search) search.addEventListener("input", choose);

  /* Links to a claim, or into one, open it; opening one makes its address the page's. */
  function follow() {
    const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const claim = target && target.closest(".claim");
    if (!claim) return;
    if (claim.hidden) { search.value = ""; filters[0].click(); }
    claim.open = true;
    target.scrollIntoView();
  }
  addEventListener("hashchange", follow);
  claims.forEach((claim) => claim.querySelector("summary").addEventListener("click", () => {
    if (!claim.open) history.replaceState(null, "", "#" + claim.id);
  }));
  const opener = document.querySelector("[data-open-all]");
  if (opener) opener.addEventListener("click", () => {
    const open = opener.textContent === "Open all";
    claims.forEach((c) => { c.open = open; });
    opener.textContent = open ? "Close all" : "Open all";
  });
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = claims.filter((c) => !c.open);
    closed.forEach((c) => { c.open = true; });
  });
  addEventListener("afterprint", () => closed.forEach((c) => { c.open = false; }));

  function download(blob, name) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }
  all("[data-export]").forEach((button) => button.addEventListener("click", () => {
    const kind = button.dataset.export;
    const table = JSON.parse(document.querySelector(`[data-table=${kind}]`).textContent);
    download(new Blob([table], { type: "text/plain" }), `verdicts.${kind}`);
  }));

  all("[data-csv]").forEach((button) => button.addEventListener("click", async () => {
    const packed = Uint8Array.from(atob(button.dataset.csv), (c) => c.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    download(new Blob([await new Response(stream).blob()], { type: "text/csv" }), button.dataset.name);
  }));

  all("[data-copy]").forEach((button) => button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(button.dataset.copy);
    } catch (e) { /* a file:// page may not have the clipboard: select the text instead */
      getSelection().selectAllChildren(button.previousElementSibling);
      document.execCommand("copy");
    }
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  }));
  follow();
})();
