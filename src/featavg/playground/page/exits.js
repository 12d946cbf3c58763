// Ways out of the page: link, command, Python, numbers, pictures.

import { asCommand, asPython } from "./commands.js";
import { copy, numbers, save, savePng, saveSvg } from "./exports.js";

export function exits(page, version) {
  const { experiment } = page;
  const byId = (id) => document.getElementById(id);
  const copied = async (button, content) => {
    const done = await copy(content);
    byId("shown-text").textContent = content;
    byId("shown").hidden = false;
    button.dataset.name ??= button.textContent;
    button.textContent = done ? "Copied" : "Select and copy below";
    setTimeout(() => (button.textContent = button.dataset.name), 1500);
  };
  const step = () => experiment.record?.step ?? 0;
  byId("copy-link").addEventListener("click", (event) => {
    page.remember(true);
    copied(event.currentTarget, location.href);
  });
  byId("copy-command").addEventListener("click", (event) => copied(event.currentTarget, asCommand(experiment.setting, step())));
  byId("copy-python").addEventListener("click", (event) => copied(event.currentTarget, asPython(experiment.setting, step())));
  byId("save-json").addEventListener("click", () => {
    const content = JSON.stringify(numbers(experiment, version), null, 1);
    save(new Blob([content], { type: "application/json" }), "featavg-playground.json");
  });
  for (const button of document.querySelectorAll("button[data-save]")) {
    button.addEventListener("click", () => {
      const { view } = button.closest("figure").dataset;
      const root = page.views.roots[view];
      page.views.draw(experiment, true);
      if (button.dataset.save === "svg") saveSvg(root, `featavg-${view}`);
      else savePng(root, `featavg-${view}`);
    });
  }
}
