// Two workers from one text. From a file address no worker may be loaded from a file, so the text
// is part of the page and becomes a Blob.

export class Workers {
  constructor({ onTraining, onRadii, onTrouble }) {
    this.answers = { trainer: onTraining, radii: onRadii };
    this.onTrouble = onTrouble;
    this.source = document.getElementById("worker-source").textContent;
    this.live = {};
    for (const name of ["trainer", "radii"]) this.start(name);
  }

  start(name) {
    const address = URL.createObjectURL(new Blob([this.source], { type: "text/javascript" }));
    const worker = new Worker(address);
    URL.revokeObjectURL(address);
    worker.onmessage = ({ data }) => {
      if (data.kind === "trouble") this.onTrouble(data.sentence);
      else this.answers[name](data);
    };
    worker.onerror = (event) => {
      event.preventDefault();
      this.onTrouble(event.message || "a worker of this page stopped");
    };
    this.live[name] = worker;
  }

  ask(name, message) {
    this.live[name].postMessage(message);
  }
}
