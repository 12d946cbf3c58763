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
  const config = {
    displaylogo: false, responsive: false, scrollZoom: false, displayModeBar: coarse ? false : "hover",
    modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d", "zoomIn2d", "zoomOut2d"],
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

  const filters = all("[data-filter]");
  filters.forEach((button) => button.addEventListener("click", () => {
    const wanted = button.dataset.filter;
    filters.forEach((b) => b.setAttribute("aria-pressed", b === button));
    const shown = (e) => wanted === "all" || e.dataset.verdict === wanted;
    all("[data-verdict]").forEach((e) => { e.hidden = !shown(e); });
    all(".theme-block, .index table").forEach((block) => {
      block.hidden = all("[data-verdict]", block).every((e) => e.hidden);
    });
    document.querySelector("main .empty").hidden = all("article.claim").some((e) => !e.hidden);
  }));

  all("[data-csv]").forEach((button) => button.addEventListener("click", async () => {
    const packed = Uint8Array.from(atob(button.dataset.csv), (c) => c.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([await new Response(stream).blob()], { type: "text/csv" }));
    link.download = button.dataset.name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
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
})();
