// The profile: a roofline plot of the steps, and a table of what they do.

const KINDS = { chain: "var(--c3)", product: "var(--device)", tile: "var(--host)" };
const FRAME = { width: 1040, height: 380, left: 70, right: 16, above: 14, below: 40 };

function roofline(profile) {
  const shown = profile.steps.filter((step) => step.flops && step.bytes && step.us);
  if (!shown.length) return null;
  const { peaks } = profile, memory = Math.max(peaks.read, peaks.copy);
  const roofs = new Map([["FP32", peaks.fp32 / 1e9]]);
  // Types that are computed as FP32 have its roof: two names at one place could not be read.
  for (const step of shown) if (step.kind === "product" && step.flop_peak !== roofs.get("FP32")) roofs.set(dtypeOf(step), step.flop_peak);
  const highest = Math.max(...roofs.values());
  const xs = shown.map((step) => step.flops / step.bytes), ys = shown.map((step) => step.gflop_per_s);
  const [low, high] = [Math.min(0.05, ...xs.map((x) => x / 2)), Math.max((highest * 8e9) / memory, ...xs.map((x) => x * 3))];
  const [bottom, top] = [Math.min((low * memory) / 1e9, ...ys.map((y) => y / 2)), 2 * highest];
  const { width, height, left, right, above, below } = FRAME;
  const along = (value, first, last) => Math.log(value / first) / Math.log(last / first);
  const place = (x, y) => [left + along(x, low, high) * (width - left - right),
    height - below - along(y, bottom, top) * (height - above - below)];
  const area = element("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", class: "roofline" });
  for (const y of powers(bottom, top)) {
    const at = place(low, y)[1];
    area.append(element("line", { class: "grid", x1: left, x2: width - right, y1: at, y2: at }),
      element("text", { class: "soft", x: left - 8, y: at + 4, "text-anchor": "end" }, String(y)));
  }
  for (const x of powers(low, high)) {
    area.append(element("text", { class: "soft", x: place(x, bottom)[0], y: height - below + 18, "text-anchor": "middle" }, String(x)));
  }
  area.append(element("text", { class: "soft", x: left, y: height - 4 }, "operations for each byte of device memory and tiles"),
    element("text", { class: "soft", x: 0, y: above }, "GFLOP/s"));
  for (const [name, rate, dashes] of [["memory", memory, ""], ["cache", peaks.cached_read, "5 4"]]) {
    const from = Math.max(low, (bottom * 1e9) / rate), to = Math.min(high, (highest * 1e9) / rate);
    const [x1, y1] = place(from, (from * rate) / 1e9), [x2, y2] = place(to, (to * rate) / 1e9);
    area.append(element("line", { stroke: "var(--soft)", "stroke-dasharray": dashes, x1, y1, x2, y2 }),
      element("text", { class: "soft", x: x1 + 6, y: y1 - 4, transform: `rotate(${Math.atan2(y2 - y1, x2 - x1) * 180 / Math.PI} ${x1} ${y1})` },
        `${name} ${number(rate / 1e9)} GB/s`));
  }
  for (const [name, rate] of roofs) {
    const [x1, y] = place(Math.max(low, (rate * 1e9) / peaks.cached_read), rate);
    area.append(element("line", { stroke: "var(--soft)", x1, x2: width - right, y1: y, y2: y }),
      element("text", { class: "soft", x: width - right, y: y - 5, "text-anchor": "end" }, `${name} ${number(rate, 0)} GFLOP/s`));
  }
  shown.forEach((step, index) => {
    const [cx, cy] = place(xs[index], ys[index]);
    const dot = element("circle", { cx, cy, r: 5 + 15 * Math.sqrt(step.share), fill: KINDS[step.kind], "fill-opacity": 0.8 });
    dot.append(element("title", {}, `line ${step.line}, ${step.name}: ${number(step.us)} us`));
    area.append(dot, element("text", { x: cx, y: cy + 4, "text-anchor": "middle", "pointer-events": "none" }, String(step.line)));
  });
  const words = { chain: "fused elementwise operations", product: "matrix products", tile: "operations on whole tiles" };
  const kinds = [...new Set(shown.map((step) => step.kind))];
  return element("div", {}, wide(area), legend(kinds.map((kind) => [KINDS[kind], words[kind]])),
    element("p", { class: "soft" }, "Numbers are lines of the source, areas are times."));
}

// The element type of a product: that of the operation it is, which comes first.
function dtypeOf(step) {
  return step.operations[0].dtype;
}

function powers(low, high) {
  const found = [];
  for (let power = Math.ceil(Math.log10(low)); power <= Math.log10(high); power += 1) found.push(Number(`1e${power}`));
  return found;
}

function percent(part) {
  return `${number(100 * part, 0)} %`;
}

function stepRows(profile) {
  return profile.steps.flatMap((step) => {
    const row = [String(step.line), element("b", {}, step.name), number(step.runs, 0), number(step.us), percent(step.share),
      number(step.bytes, 0), number(step.gb_per_s), percent(step.of_memory_peak), number(step.flops, 0), number(step.gflop_per_s), percent(step.of_flop_peak)];
    const parts = step.operations.filter((one) => !one.measured).map((one) => [String(one.line), element("span", { class: "part" }, one.name), "",
      one.us === null ? "within" : `~${number(one.us)}`, one.us === null ? "" : `~${percent(one.share)}`,
      number(one.device_bytes + one.tile_bytes, 0), "", "", number(one.flops, 0), "", ""]);
    return [row, ...parts];
  });
}

function profiles() {
  const head = ["line", "step", "runs", "us", "share", "bytes", "GB/s", "of memory", "flops", "GFLOP/s", "of peak"];
  return of(({ profile }) => profile && element("div", {}, roofline(profile),
    table(head, stepRows(profile), { class: "steps" }, [1]),
    ...profile.notes.map((note) => element("p", { class: "soft" }, note))));
}
