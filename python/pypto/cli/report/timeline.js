// The timeline: tracks of slices that can be zoomed and moved.

const ROW = 19, GAP = 7, AXIS = 24, LABELS = 104;
const TASKS = ["#2a6fdb", "#2a8f6e", "#8a5cd0", "#b8458b", "#3f7d20", "#1f7f93", "#6a6fd8", "#a05a2c"];

function colorOf(track, name) {
  if (track.group === "host") return "#7d7b74";
  if (track.name.startsWith("copies")) return "#c4600f";
  if (track.name.startsWith("launch")) return "#5f7590";
  let hash = 7;
  for (const letter of name) hash = (hash * 31 + letter.charCodeAt(0)) >>> 0;
  return TASKS[hash % TASKS.length];
}

class Timeline {
  constructor(recording) {
    this.recording = recording;
    let y = AXIS;
    this.rows = recording.tracks.map((track) => {
      const levels = 1 + track.slices.reduce((most, slice) => Math.max(most, slice[0]), 0);
      const row = { track, y, height: levels * ROW };
      y += row.height + GAP;
      return row;
    });
    this.height = y;
    const ends = recording.tracks.flatMap((track) => track.slices.map((slice) => slice[2] + slice[3]));
    this.whole = [0, ends.reduce((most, end) => Math.max(most, end), 1)];
    this.svg = element("svg", { class: "timeline", tabindex: 0, height: this.height, role: "img", "aria-label": "Timeline of some launches" });
    this.node = element("div", {}, this.buttons(), this.svg, element("p", { class: "soft" },
      "Drag to move; Ctrl and the wheel, a double click, or + and \u2212 zoom.",
      recording.left_out ? ` The first ${number(recording.left_out, 0)} slices are left out.` : ""));
    this.listen();
    this.width = 1040;
    new ResizeObserver(() => {
      if (this.svg.clientWidth && this.svg.clientWidth !== this.width) { this.width = this.svg.clientWidth; this.draw(); }
    }).observe(this.svg);
    this.launch(recording.launches.length - 1);
  }

  buttons() {
    const button = (text, label, act) => {
      const made = element("button", { type: "button", title: label }, text);
      made.addEventListener("click", act);
      return made;
    };
    return element("div", { class: "tools" },
      button("+", "Zoom in", () => this.zoom(0.5)), button("\u2212", "Zoom out", () => this.zoom(2)),
      button("everything", "From opening the device to the end", () => this.show(...this.whole)),
      ...this.recording.launches.map(([begin], index) => begin < this.recording.shown_from ? null :
        button(index ? `launch ${index + 1}` : "launch 1, cold", "Show this launch", () => this.launch(index))));
  }

  launch(index) {
    const one = this.recording.launches[index];
    if (one) this.show(one[0] - one[1] * 0.03, one[0] + one[1] * 1.03); else this.show(...this.whole);
  }

  show(from, to) {
    const length = Math.min(Math.max(to - from, 0.01), (this.whole[1] - this.whole[0]) * 1.1);
    const margin = length * 0.05;
    this.from = Math.max(this.whole[0] - margin, Math.min(from, this.whole[1] + margin - length));
    this.to = this.from + length;
    this.draw();
  }

  zoom(factor, at = (this.from + this.to) / 2) {
    this.show(at - (at - this.from) * factor, at + (this.to - at) * factor);
  }

  timeAt(event) {
    const box = this.svg.getBoundingClientRect();
    const share = (event.clientX - box.left - LABELS) / (this.width - LABELS);
    return this.from + Math.min(1, Math.max(0, share)) * (this.to - this.from);
  }

  listen() {
    let dragged = null;
    this.svg.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return;  // the page scrolls
      event.preventDefault();
      this.zoom(event.deltaY > 0 ? 1.25 : 0.8, this.timeAt(event));
    }, { passive: false });
    this.svg.addEventListener("dblclick", (event) => this.zoom(0.4, this.timeAt(event)));
    this.svg.addEventListener("pointerdown", (event) => {
      dragged = { x: event.clientX, from: this.from, to: this.to };
      this.svg.setPointerCapture(event.pointerId);
    });
    this.svg.addEventListener("pointermove", (event) => {
      if (dragged) {
        const moved = ((event.clientX - dragged.x) / (this.width - LABELS)) * (dragged.to - dragged.from);
        if (moved) this.show(dragged.from - moved, dragged.to - moved);
        hideTip();
        return;
      }
      const slice = this.drawn.get(event.target);
      if (!slice) { hideTip(); return; }
      const [, name, begin, duration, words] = slice;
      const more = Object.entries(words).filter(([key]) => key !== "kernel").map(([key, value]) => `${key}: ${value}`);
      showTip(event, [name, `${number(duration, 3)} us, at ${number(begin, 3)} us`, ...more]);
    });
    for (const kind of ["pointerup", "pointercancel"]) this.svg.addEventListener(kind, () => { dragged = null; });
    this.svg.addEventListener("pointerleave", hideTip);
    this.svg.addEventListener("keydown", (event) => {
      const move = (this.to - this.from) * 0.2;
      const act = {
        "+": () => this.zoom(0.5), "-": () => this.zoom(2), 0: () => this.show(...this.whole),
        ArrowLeft: () => this.show(this.from - move, this.to - move),
        ArrowRight: () => this.show(this.from + move, this.to + move),
      }[event.key];
      if (act && !event.ctrlKey && !event.metaKey) { event.preventDefault(); act(); }
    });
  }

  draw() {
    const scale = (this.width - LABELS) / (this.to - this.from);
    const x = (time) => LABELS + (time - this.from) * scale;
    this.drawn = new Map();
    this.svg.setAttribute("viewBox", `0 0 ${this.width} ${this.height}`);
    this.svg.setAttribute("data-from", this.from);
    this.svg.setAttribute("data-to", this.to);
    const parts = [];
    const { found, step } = ticks(this.from, this.to, (this.width - LABELS) / 110);
    for (const time of found) {
      parts.push(element("line", { class: "grid", x1: x(time), x2: x(time), y1: AXIS - 6, y2: this.height }));
      if (x(time) < this.width - 60) parts.push(element("text", { class: "soft", x: x(time) + 3, y: 13 }, moment(time, step)));
    }
    for (const { track, y, height } of this.rows) {
      const filled = [];  // how far each level is drawn: what is narrower than a pixel is drawn once for all of it
      for (const slice of track.slices) {
        const [level, name, begin, duration] = slice;
        const left = Math.max(LABELS, x(begin)), right = Math.min(this.width, x(begin + duration));
        if (right < LABELS || left > this.width || right < (filled[level] || 0)) continue;
        const width = Math.max(0.8, right - left - 0.4);
        filled[level] = left + width;
        const box = element("rect", { x: left, y: y + level * ROW, width, height: ROW - 2, rx: width > 6 ? 2 : 0, fill: colorOf(track, name) });
        this.drawn.set(box, slice);
        parts.push(box);
        const letters = Math.floor((width - 8) / 6.3);
        if (letters >= 3) {
          const text = name.length > letters ? `${name.slice(0, letters - 1)}\u2026` : name;
          parts.push(element("text", { class: "inside", x: left + 4, y: y + level * ROW + 13 }, text));
        }
      }
      parts.push(element("text", { x: 8, y: y + 13 }, track.name));
      parts.push(element("line", { class: "grid", x1: 0, x2: this.width, y1: y + height + GAP / 2 - 1, y2: y + height + GAP / 2 - 1 }));
    }
    this.svg.replaceChildren(...parts);
  }
}
