"use strict";
// Elements, numbers as the command line writes them, axes, and plots of points and steps.

const SVG = "http://www.w3.org/2000/svg";

function element(name, attributes, ...children) {
  const svg = ["svg", "g", "rect", "line", "path", "circle", "text", "title"].includes(name);
  const made = svg ? document.createElementNS(SVG, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
  made.append(...children.filter((child) => child !== null));
  return made;
}

// As the command line prints it. `toLocaleString` rounds the shortest decimal form (0.15 to 0.2), Python the value
// itself, and what lies exactly in the middle to the even digit; so 30 more digits decide.
function number(value, digits = 1) {
  const exact = value.toFixed(digits + 30);
  const kept = exact.slice(0, -30).replace(/\.$/, "");
  const middle = /^50*$/.test(exact.slice(-30));
  const [whole, fraction] = (middle && "02468".includes(kept.slice(-1)) ? kept : value.toFixed(digits)).split(".");
  return whole.replace(/\B(?=(\d{3})+$)/g, ",") + (fraction ? `.${fraction}` : "");
}

function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (value >= 1024 && unit < 4) { value /= 1024; unit += 1; }
  return `${number(value, unit && value % 1 ? 1 : 0)} ${units[unit]}`;
}

// A time on an axis, in the unit that suits the step between two of them.
function moment(us, step) {
  const [scale, unit] = step >= 1e5 ? [1e6, "s"] : step >= 100 ? [1e3, "ms"] : [1, "us"];
  const digits = Math.max(0, -Math.floor(Math.log10(step / scale) + 1e-9));
  return `${number(us / scale, digits)} ${unit}`;
}

function stepOf(range, most) {
  const raw = range / most;
  const power = 10 ** Math.floor(Math.log10(raw));
  return [1, 2, 5, 10].find((factor) => factor * power >= raw) * power;
}

function ticks(low, high, most) {
  const step = stepOf(high - low, most);
  const found = [];
  for (let at = Math.ceil(low / step); at * step <= high; at += 1) found.push(at * step);
  return { found, step };
}

// Words stand left, as the first column always does; `words` says which columns hold some.
function table(head, rows, attributes, words = []) {
  const cells = (name, values) => values.map((value, index) =>
    element(name, words.includes(index) ? { class: "left" } : {}, value instanceof Node ? value : String(value)));
  return element("div", { class: "scroll" }, element("table", attributes,
    element("thead", {}, element("tr", {}, ...cells("th", head))),
    element("tbody", {}, ...rows.map((row) => element("tr", {}, ...cells("td", row))))));
}

function legend(entries) {
  return element("ul", { class: "legend" }, ...entries.map(([color, text]) =>
    element("li", {}, element("span", { class: "mark", style: `background:${color}` }), text)));
}

// A frame with horizontal lines; `place` maps data to the plane, `area` takes what is drawn.
function plot(height, [low, high], [bottom, top], label, captions) {
  const width = 1040, left = 78, right = 12, above = 8, below = 24;
  const place = (x, y) => [
    left + ((x - low) / (high - low || 1)) * (width - left - right),
    height - below - ((y - bottom) / (top - bottom || 1)) * (height - above - below),
  ];
  const area = element("svg", { viewBox: `0 0 ${width} ${height}`, role: "img" });
  for (const y of captions.ys) {
    const at = place(low, y)[1];
    area.append(element("line", { class: "grid", x1: left, x2: width - right, y1: at, y2: at }),
      element("text", { class: "soft", x: left - 8, y: at + 4, "text-anchor": "end" }, label(y)));
  }
  captions.xs.forEach(([x, text], index) => {
    const last = index === captions.xs.length - 1 && index > 0;
    area.append(element("text", { class: "soft", x: place(x, 0)[0], y: height - 6, "text-anchor": last ? "end" : index ? "middle" : "start" }, text));
  });
  return { area, place };
}

// A picture that a narrow window scrolls instead of making its words too small to read.
function wide(area) {
  area.style.minWidth = "720px";
  return element("div", { class: "scroll" }, area);
}

const tip = element("div", { id: "tip" });

function showTip(event, lines) {
  tip.replaceChildren(...lines.map((line, index) => element("div", index ? { class: "soft" } : {}, line)));
  tip.style.display = "block";
  const box = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - box.width - 8))}px`;
  tip.style.top = `${event.clientY + 18 + box.height > innerHeight ? event.clientY - box.height - 10 : event.clientY + 18}px`;
}

function hideTip() {
  tip.style.display = "none";
}
