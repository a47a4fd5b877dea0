// The sections of the page. Each makes its node, or null where there is nothing to show.

const data = JSON.parse(document.getElementById("data").textContent);
const HUES = ["var(--device)", "var(--host)", "var(--c2)", "var(--c3)", "var(--c4)"];
const PARTS = [...new Set(data.results.flatMap((result) => result.split.map((part) => part.part)))];
const hue = (part) => HUES[PARTS.indexOf(part) % HUES.length];
const CLOCKS = [["host wall", "host_wall_us", "var(--host)"], ["device wall", "device_wall_us", "var(--device)"]];

function of(make) {  // a part for each result, below its name where there are two
  const made = data.results.map((result) => [result, make(result)]).filter(([, node]) => node);
  if (!made.length) return null;
  return element("div", {}, ...made.flatMap(([result, node]) =>
    data.results.length > 1 ? [element("h3", {}, result.name), node] : [node]));
}

function tiles(result) {
  const { host_wall_us: host, device_wall_us: device } = result.stats.summary;
  const tile = (label, id, value, more) => element("div", { class: "tile" },
    element("div", { class: "soft" }, label),
    element("div", { class: "value", "data-value": id }, value, element("small", {}, more)));
  return element("div", {}, element("div", { class: "tiles" },
    tile("host wall, median", "host", number(host.median), " us"),
    tile("device wall, median", "device", number(device.median), " us"),
    tile("to the device, each launch", "h2d", number(result.stats.h2d_bytes, 0), " B"),
    tile("from the device, each launch", "d2h", number(result.stats.d2h_bytes, 0), " B")),
  element("p", { class: "verdict" }, result.verdict));
}

function split() {
  const most = Math.max(...data.results.map((result) => result.split.reduce((sum, part) => sum + part.us, 0)));
  return of((result) => {
    if (!result.split.length) return null;
    const area = element("svg", { viewBox: "0 0 1040 34", role: "img" });
    let x = 0;
    for (const part of result.split) {
      const width = (part.us / most) * 1040;
      const box = element("rect", { x, y: 0, width: Math.max(0.5, width - 1.5), height: 34, rx: 3, fill: hue(part.part) });
      box.append(element("title", {}, `${part.part}: ${number(part.us)} us`));
      area.append(box);
      x += width;
    }
    return element("div", {}, area, legend(result.split.map((part) => [hue(part.part), `${part.part} ${number(part.us)} us`])));
  });
}

function comparison() {
  if (!data.comparison) return null;
  const [first, second] = data.results;
  const rows = CLOCKS.map(([name, key]) => {
    const ratio = data.comparison[key.split("_")[0]];
    const word = element("span", { class: ratio.word }, ratio.word);
    const known = ratio.word !== "unknown";
    return [name, number(first.stats.summary[key].median), number(second.stats.summary[key].median),
      known ? number(ratio.value, 3) : "", known ? `${number(ratio.low, 3)}..${number(ratio.high, 3)}` : "", word];
  });
  return element("div", {},
    element("p", {}, `${first.name} against ${second.name}: below 1 the first is faster.`),
    table(["us", "first", "second", "ratio", "95 %", ""], rows, { id: "comparison" }, [5]), forest());
}

function forest() {  // the ratios with their intervals on one axis, 1 in it
  const ratios = CLOCKS.map(([, key]) => data.comparison[key.split("_")[0]]).filter((ratio) => ratio.word !== "unknown");
  if (!ratios.length) return null;
  const low = Math.min(1, ...ratios.map((ratio) => ratio.low)), high = Math.max(1, ...ratios.map((ratio) => ratio.high));
  const margin = (high - low) * 0.08 || 0.1;
  const { found, step } = ticks(low - margin, high + margin, 8);
  const digits = Math.max(1, -Math.floor(Math.log10(step) + 1e-9));
  const x = (value) => 90 + ((value - low + margin) / (high - low + 2 * margin)) * 930;
  const area = element("svg", { viewBox: "0 0 1040 84", role: "img" });
  for (const value of found) {
    area.append(element("line", { class: "grid", x1: x(value), x2: x(value), y1: 4, y2: 62 }),
      element("text", { class: "soft", x: x(value), y: 78, "text-anchor": "middle" }, number(value, digits)));
  }
  area.append(element("line", { stroke: "var(--text)", x1: x(1), x2: x(1), y1: 4, y2: 62 }));
  CLOCKS.forEach(([name, key, color], index) => {
    const ratio = data.comparison[key.split("_")[0]], y = 20 + index * 26;
    if (ratio.word === "unknown") return;
    area.append(element("text", { x: 0, y: y + 4 }, name),
      element("line", { stroke: color, "stroke-width": 3, x1: x(ratio.low), x2: x(ratio.high), y1: y, y2: y }),
      element("circle", { fill: color, cx: x(ratio.value), cy: y, r: 5 }));
  });
  return wide(area);
}

const COLUMNS = ["min", "p5", "median", "p95", "p99", "max", "mean", "stdev"];

function launches() {
  return of((result) => {
    const rows = CLOCKS.map(([name, key]) => {
      const one = result.stats.summary[key];
      return [name, ...COLUMNS.map((column) => number(one[column])), `${number(one.median_low)}..${number(one.median_high)}`,
        one.outliers, result.cold ? number(result.cold[key]) : ""];
    });
    const { rounds, warmup } = result.stats;
    return element("div", {},
      element("p", { class: "soft" }, `${number(rounds, 0)} launches after ${number(warmup, 0)} for warming up`),
      table(["us", ...COLUMNS, "95 % of median", "outliers", "cold"], rows, { class: "launches" }),
      scatter(result), legend(CLOCKS.map(([name, , color]) => [color, name])));
  });
}

function scatter(result) {
  const { host_wall_us: host, device_wall_us: device } = result.stats.summary;
  // On a busy machine a twentieth of the launches takes ten times as long; the others are what one wants to see apart.
  const top = Math.min(Math.max(host.p95, device.p95), 4 * Math.max(host.median, device.median)) * 1.25 || 1;
  const count = result.stats.rounds;
  const { found, step } = ticks(0, top, 5);
  const { area, place } = plot(170, [0, Math.max(1, count - 1)], [0, top], (y) => moment(y, step),
    { ys: found, xs: [[0, "1"], [Math.max(1, count - 1), `launch ${number(count, 0)}`]] });
  const every = Math.ceil(count / 2000);
  let above = 0;
  for (const [name, key, color] of CLOCKS) {
    result.stats[key].forEach((us, index) => {
      if (us > top) above += 1;
      if (index % every || us > top) return;
      const [cx, cy] = place(index, us);
      const dot = element("circle", { cx, cy, r: 2.2, fill: color, "fill-opacity": 0.75 });
      dot.append(element("title", {}, `${name} of launch ${index + 1}: ${number(us)} us`));
      area.append(dot);
    });
  }
  const beyond = above ? element("p", { class: "soft" }, `Slower, above the picture: ${number(above, 0)} of ${number(2 * count, 0)} values.`) : null;
  return element("div", {}, wide(area), beyond);
}

function timelines() {
  return of((result) => result.recording && result.recording.tracks.length ? new Timeline(result.recording).node : null);
}

function tree() {
  return of((result) => {
    if (!result.tree.length) return null;
    const whole = result.tree[0].median_us || 1;
    const rows = result.tree.map((row) => {
      const name = element("span", { class: "mono", style: `padding-left:${row.level * 18}px` }, row.name);
      const bar = element("div", { style: `width:140px` }, element("div", {
        style: `height:9px;border-radius:2px;min-width:1px;width:${Math.min(100, (row.median_us / whole) * 100)}%;background:${row.device ? "var(--device)" : "var(--host)"}` }));
      return [name, row.device ? "device" : "host", number(row.median_us), number(row.mean_us), number(row.stdev_us), number(row.min_us), number(row.max_us), bar];
    });
    return table(["us", "clock", "median", "mean", "stdev", "min", "max", ""], rows, { class: "tree" }, [1]);
  });
}

function transfers() {
  const words = { h2d: "host to device", d2h: "device to host" };
  return of((result) => {
    const rows = result.stats.summary.transfers.map((one) => [one.parameter, words[one.direction], number(one.nbytes, 0),
      number(one.us), one.us ? number(one.nbytes / one.us / 1000) : ""]);
    return rows.length ? table(["parameter", "direction", "bytes", "us", "GB/s"], rows, { class: "transfers" }, [1])
      : element("p", { class: "soft" }, "Nothing is copied.");
  });
}

const SIZES = {
  live: "live tensors", peak: "most that was live", staging: "for copies of host arguments", scratch: "for programs to work in",
  packed: "packed forms of weights", committed: "taken from the machine", capacity: "can be allocated",
};

function memory() {
  return of((result) => {
    if (!result.recording) return null;
    const rows = Object.entries(SIZES).map(([key, text]) => [text, bytes(result.recording.memory[key])]);
    const args = result.recording.arguments.map((one) => [one.name, one.direction, one.what, one.where]);
    return element("div", {},
      table(["argument", "direction", "", ""], args, { class: "arguments" }, [1, 2, 3]),
      ...Object.entries(result.recording.counters).filter(([name]) => name.startsWith("live_bytes"))
        .map(([, values]) => steps(values, result.recording)),
      element("h3", {}, "After these launches"), table(["", "bytes"], rows, { class: "memory" }));
  });
}

function steps(values, recording) {  // live bytes from the opening of the device to its end
  if (values.every(([, value]) => value === 0)) {
    return element("p", { class: "soft" }, "No argument is resident: nothing lives on the device between launches.");
  }
  const top = values.reduce((most, [, value]) => Math.max(most, value), 1);
  const end = Math.max(values[values.length - 1][0], ...recording.launches.map(([begin, length]) => begin + length)) * 1.02 || 1;
  const { step } = ticks(0, end, 6);
  const { area, place } = plot(130, [0, end], [0, top * 1.1], bytes, { ys: [0, top], xs: [[0, "0"], [end, moment(end, step)]] });
  for (const [begin, length] of recording.launches) {
    const [left, bottom] = place(begin, 0), right = place(begin + length, 0)[0];
    area.append(element("rect", { x: left, width: Math.max(1, right - left), y: 8, height: bottom - 8, fill: "var(--host)", "fill-opacity": 0.25 }));
  }
  let path = `M${place(0, 0).join(" ")}`;
  for (const [time, value] of values) path += `H${place(time, 0)[0]}V${place(0, value)[1]}`;
  area.append(element("path", { d: `${path}H${place(end, 0)[0]}`, fill: "none", stroke: "var(--device)", "stroke-width": 2 }));
  return element("div", {}, element("h3", {}, "Live bytes from opening the device to closing it; launches are shaded"), wide(area));
}

function machine() {
  return table(["", ""], Object.entries(data.machine), { id: "machine" }, [1]);
}

const SECTIONS = [
  ["Where a launch spends its time", split], ["Comparison", comparison], ["Launches", launches], ["Timeline", timelines], ["Where the device time goes", profiles],
  ["A launch, span by span", tree], ["Copied in each launch", transfers], ["Arguments and device memory", memory], ["Machine and versions", machine],
];

const page = document.getElementById("page");
page.replaceChildren(
  element("h1", {}, data.results.map((result) => result.name).join(" against ")),
  element("p", { class: "soft" }, `${data.written.replace("T", " ").replace("+00:00", " UTC")}. ${data.note}`), of(tiles),
  ...SECTIONS.map(([title, make]) => [title, make()]).filter(([, node]) => node)
    .map(([title, node]) => element("section", {}, element("h2", {}, title), node)), tip);
