// What scripts add to the pages: curves drawn from their tables, the slider of a
// decision, filters of exported lists, and updates. Texts only ever become text.
(() => {
  "use strict";
  const $ = (s, from = document) => from.querySelector(s);
  const $$ = (s, from = document) => [...from.querySelectorAll(s)];
  const make = (tag, className, text) => {
    const e = document.createElement(tag);
    if (className) e.className = className;
    if (text !== undefined) e.textContent = text;
    return e;
  };
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const calm = (f) => { let t; return () => { clearTimeout(t); t = setTimeout(f, 80); }; };

  // Numbers as the pages write them.
  const usd = (v) => {
    const a = Math.abs(v);
    if (a === 0) return "0 USD";
    if (a >= 1) return v.toFixed(2) + " USD";
    return v.toFixed(Math.min(12, 2 - Math.floor(Math.log10(a)))) + " USD";
  };
  const percent = (v) => (Math.abs(v) < 0.0995 && v !== 0 ? (100 * v).toFixed(1) : (100 * v).toFixed(0)) + " %";
  const three = (v) => (v === 0 ? "0" : String(Number(v.toPrecision(3))));

  // ---- curves

  const drawn = new Map(); // figure -> plot
  const colours = ["--m0", "--m1", "--m2", "--m3", "--m4", "--m5", "--m6", "--m7", "--good", "--bad", "--warn", "--none"];

  function curves(figure) {
    const list = new Map();
    for (const row of $$("tbody tr[data-s]", figure)) {
      const name = row.dataset.s;
      if (!list.has(name)) list.set(name, { name, kind: row.dataset.kind, hidden: "hidden" in row.dataset, points: [] });
      const d = row.dataset;
      list.get(name).points.push({
        x: Number(d.px), y: Number(d.py), low: d.low === undefined ? null : Number(d.low), high: d.high === undefined ? null : Number(d.high),
        text: [...row.cells].slice(1).map((c) => c.textContent).filter(Boolean).join(", "), label: row.cells[3].textContent,
      });
    }
    return [...list.values()];
  }

  function draw(figure) {
    const at = $(".plot", figure);
    const list = curves(figure);
    if (!at || !list.length || !window.uPlot) return;
    const before = drawn.get(figure);
    const shown = before ? before.shown : new Map(list.map((s) => [s.name, !s.hidden]));
    if (before) before.plot.destroy();
    at.replaceChildren();
    $(".switches", figure)?.remove();
    $(".readout", figure)?.remove();

    // One column of x for all curves, gaps where a curve has no point.
    const xs = [...new Set(list.flatMap((s) => s.points.map((p) => p.x)))].sort((a, b) => a - b);
    const place = new Map(xs.map((x, i) => [x, i]));
    const data = [xs];
    const series = [{}];
    const bands = [];
    const points = []; // by series index, by x index
    const ink = css("--soft"), line = css("--line"), card = css("--card");
    list.forEach((s, k) => {
      const stroke = css(colours[k % colours.length]);
      const ys = Array(xs.length).fill(null), lows = Array(xs.length).fill(null), highs = Array(xs.length).fill(null), own = Array(xs.length).fill(null);
      let banded = false;
      for (const p of s.points) {
        const i = place.get(p.x);
        ys[i] = p.y;
        own[i] = own[i] ? { ...own[i], text: own[i].text + "; " + p.text, label: own[i].label + ", " + p.label } : p;
        if (p.low !== null) { banded = true; lows[i] = p.low; highs[i] = p.high; }
      }
      data.push(ys); points[series.length] = own;
      series.push({
        label: s.name, stroke, width: s.kind === "points" ? 0 : 2, spanGaps: true, show: shown.get(s.name),
        paths: s.kind === "points" ? () => null : undefined,
        dash: k >= 8 ? [5, 3] : undefined,
        points: { show: s.kind === "points" || s.points.length < 25, size: s.kind === "points" ? 9 : 5, fill: s.kind === "points" ? stroke : card, stroke },
        named: s.kind === "points",
      });
      if (banded) {
        const high = series.length;
        data.push(highs, lows);
        const soft = { width: 0, spanGaps: true, points: { show: false }, show: shown.get(s.name), of: s.name };
        series.push({ ...soft, stroke: "transparent" }, { ...soft, stroke: "transparent" });
        bands.push({ series: [high, high + 1], fill: stroke + "22" });
      }
    });

    const wide = Math.max(260, at.clientWidth || figure.clientWidth - 34);
    const percentY = "percent" in figure.dataset, log = figure.dataset.log, time = "time" in figure.dataset;
    const readout = make("p", "readout");
    readout.setAttribute("role", "status");
    const axis = { stroke: ink, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 }, font: "12px system-ui, sans-serif", labelFont: "12px system-ui, sans-serif" };
    const options = {
      width: wide, height: Math.round(Math.min(460, Math.max(240, wide * 0.5))), bands, series,
      padding: [12, 16, 0, 0],
      cursor: { drag: { x: true, y: true, uni: 20 }, focus: { prox: 24 }, points: { size: 8 } },
      focus: { alpha: 0.35 },
      legend: { show: false },
      scales: { x: { time, distr: log ? 3 : 1, range: log ? (u, a, b) => [a * 0.85, b * 1.15] : (u, a, b) => [a - (b - a || 1) * 0.03, b + (b - a || 1) * 0.05] },
        y: { range: (u, a, b) => { const m = (b - a || Math.abs(a) || 1) * 0.08; return [a - m, percentY && b <= 1 ? Math.min(b + m, 1.02) : b + m]; } } },
      axes: [
        { ...axis, label: figure.dataset.x, space: 70, values: time ? undefined : (u, v) => v.map((x) => (x === null ? "" : three(x))) },
        { ...axis, label: figure.dataset.y, size: (u, v) => Math.max(58, 18 + 7 * Math.max(0, ...(v || []).map((y) => y.length))), values: (u, v) => v.map((y) => (percentY ? three(100 * y) + " %" : three(y))) },
      ],
      hooks: {
        draw: [(u) => labels(u, points, ink)],
        setCursor: [(u) => {
          const i = u.cursor.idx;
          let best = null, near = 40 * devicePixelRatio;
          if (i !== null && u.cursor.left >= 0) {
            for (let k = 1; k < u.series.length; k++) {
              if (!points[k] || !u.series[k].show) continue;
              for (let j = Math.max(0, i - 40); j < Math.min(xs.length, i + 40); j++) {
                const p = points[k][j];
                if (!p) continue;
                const d = Math.hypot(u.valToPos(p.x, "x") - u.cursor.left, u.valToPos(p.y, "y") - u.cursor.top);
                if (d < near) { near = d; best = u.series[k].label + ": " + p.text; }
              }
            }
          }
          readout.textContent = best || "";
        }],
      },
    };
    const plot = new uPlot(options, data, at);
    drawn.set(figure, { plot, shown });
    figure.insertBefore(readout, $("details", figure));
    if (list.length > 1) {
      const switches = make("div", "switches");
      switches.setAttribute("role", "group");
      switches.setAttribute("aria-label", "Curves");
      list.forEach((s, k) => {
        const b = make("button");
        b.type = "button";
        const dot = make("span", "dot");
        dot.style.background = css(colours[k % colours.length]);
        b.append(dot, s.name);
        b.setAttribute("aria-pressed", String(shown.get(s.name)));
        b.addEventListener("click", () => {
          shown.set(s.name, !shown.get(s.name));
          b.setAttribute("aria-pressed", String(shown.get(s.name)));
          plot.series.forEach((one, i) => { if (one.label === s.name || one.of === s.name) plot.setSeries(i, { show: shown.get(s.name) }); });
        });
        switches.append(b);
      });
      figure.insertBefore(switches, readout);
    }
  }

  // Names stand beside their points, where they lie on no other name or point.
  function labels(u, points, ink) {
    const c = u.ctx, r = devicePixelRatio, taken = [];
    const box = u.bbox;
    for (let k = 1; k < u.series.length; k++) {
      if (!points[k] || !u.series[k].show) continue;
      for (const p of points[k]) {
        if (p && u.series[k].named) { const x = u.valToPos(p.x, "x", true), y = u.valToPos(p.y, "y", true); taken.push([x - 6 * r, y - 6 * r, 12 * r, 12 * r]); }
      }
    }
    c.save();
    c.font = 12 * r + "px system-ui, sans-serif";
    c.fillStyle = ink;
    c.strokeStyle = css("--card");
    c.lineWidth = 4 * r;
    c.lineJoin = "round";
    c.textAlign = "left";
    const named = [];
    for (let k = 1; k < u.series.length; k++) {
      if (points[k] && u.series[k].show && u.series[k].named) named.push(...points[k].filter((p) => p && p.label));
    }
    named.sort((p, q) => p.label.length - q.label.length); // short names find a place more easily
    {
      for (const p of named) {
        const x = u.valToPos(p.x, "x", true), y = u.valToPos(p.y, "y", true);
        if (x < box.left || x > box.left + box.width || y < box.top || y > box.top + box.height) continue;
        const text = p.label.length > 40 ? p.label.slice(0, 39) + "…" : p.label;
        const w = c.measureText(text).width, h = 14 * r, gap = 8 * r;
        const places = [[x + gap, y - h / 2], [x - gap - w, y - h / 2], [x - w / 2, y - gap - h], [x - w / 2, y + gap], [x + gap, y - gap - h], [x + gap, y + gap], [x - gap - w, y - gap - h], [x - gap - w, y + gap]];
        const free = places.find(([a, b]) => a >= box.left && a + w <= box.left + box.width && b >= box.top && b + h <= box.top + box.height &&
          !taken.some(([ta, tb, tw, th]) => a < ta + tw && ta < a + w && b < tb + th && tb < b + h));
        if (!free) continue; // it is read by pointing at it
        taken.push([free[0], free[1], w, h]);
        c.textBaseline = "middle";
        c.strokeText(text, free[0], free[1] + h / 2); // lines pass behind names
        c.fillText(text, free[0], free[1] + h / 2);
      }
    }
    c.restore();
  }

  const drawAll = () => {
    for (const [figure, d] of drawn) if (!figure.isConnected) { d.plot.destroy(); drawn.delete(figure); }
    for (const figure of $$("figure.chart")) draw(figure);
  };

  // ---- why: the slider

  function knob(section) {
    const slider = $("input[type=range]", section);
    if (!slider) return;
    const scale = JSON.parse(slider.dataset.scale), out = $("output", section), sentence = $(".sentence", section), reset = $(".reset", section);
    const recorded = { sentence: sentence.textContent, out: out.textContent };
    const stored = $(".points", section);
    const answers = stored && JSON.parse(stored.dataset.points);
    let asking = null, wanted = 0;
    const show = (a) => {
      slider.setAttribute("aria-valuetext", out.textContent + ": " + (a.run ? "ask " + a.run : "stop"));
      if (sentence.textContent !== a.sentence) sentence.textContent = a.sentence;
      for (const c of a.candidates) {
        const row = $$(".candidates tbody tr", section).find((r) => r.dataset.model === c.model);
        if (!row) continue;
        row.classList.toggle("best", c.next);
        $("[data-cell=price]", row).textContent = c.price;
        $("[data-cell=value]", row).textContent = c.value;
        $("[data-cell=state]", row).textContent = c.state;
      }
    };
    const turn = async () => {
      const i = Number(slider.value);
      reset.hidden = i === Number(slider.dataset.here);
      out.textContent = three(scale[i]);
      const mine = ++wanted;
      if (answers) { show(answers[i]); return; }
      asking?.abort();
      asking = new AbortController();
      try {
        const q = new URLSearchParams({ id: section.dataset.id, n: section.dataset.n, knob: String(scale[i]) });
        const r = await fetch("why.json?" + q, { signal: asking.signal });
        if (!r.ok) throw new Error(await r.text());
        const a = await r.json();
        if (mine === wanted) show(a);
      } catch (e) {
        if (e.name !== "AbortError" && mine === wanted) sentence.textContent = "The decision could not be taken again: " + e.message;
      }
    };
    slider.disabled = false;
    slider.setAttribute("aria-valuetext", recorded.out);
    slider.addEventListener("input", turn);
    reset.addEventListener("click", () => { slider.value = slider.dataset.here; turn(); slider.focus(); });
  }

  // ---- lists of an export are filtered here

  function filterHere() {
    const form = $("#filter"), table = $("#steps");
    if (!form || !table || form.getAttribute("action") !== "#") return;
    const apply = () => {
      const want = new FormData(form);
      let n = 0;
      for (const row of $$("tbody tr", table)) {
        let ok = true;
        for (const [name, value] of want) {
          if (!value) continue;
          const is = row.dataset[name] || "";
          if (name === "text") ok &&= row.textContent.toLowerCase().includes(value.toLowerCase()) || $("bdi", row).title.toLowerCase().includes(value.toLowerCase());
          else if (name === "model") ok &&= is.split("\n").includes(value);
          else ok &&= is === value;
        }
        row.hidden = !ok;
        n += ok;
      }
      $("h1").textContent = n === table.tBodies[0].rows.length ? "Steps" : n + " selected steps";
    };
    const read = () => {
      for (const [name, value] of new URLSearchParams(location.hash.slice(1))) {
        const field = form.elements.namedItem(name);
        if (!field) continue;
        if (field.type === "checkbox") field.checked = value === "1"; else field.value = value;
      }
      apply();
    };
    form.addEventListener("submit", (e) => { e.preventDefault(); apply(); });
    form.addEventListener("input", apply);
    addEventListener("hashchange", read);
    read();
  }

  // ---- updates: the server makes the page anew, and what differs takes its place

  function follow() {
    if (!document.body.dataset.live || !window.EventSource) return;
    const says = $("#live");
    const events = new EventSource("live");
    let busy = false, again = false;
    const renew = () => {
      if (busy) { again = true; return; }
      busy = true;
      const r = new XMLHttpRequest();
      r.open("GET", location.href);
      r.responseType = "document";
      r.onloadend = () => {
        busy = false;
        if (r.status === 200 && r.response) {
          for (const part of $$("main [data-part]", r.response)) {
            const old = $(`main [data-part="${CSS.escape(part.dataset.part)}"]`);
            if (!old) { location.reload(); return; }
            if (old.contains(document.activeElement) && document.activeElement !== document.body) continue;
            if (old.dataset.was === part.textContent) continue;
            const open = $$("details", old).map((d) => d.open);
            const fresh = document.importNode(part, true);
            fresh.dataset.was = part.textContent;
            fresh.classList.add("fresh");
            old.replaceWith(fresh);
            $$("details", fresh).forEach((d, i) => { d.open = !!open[i]; });
            stack(fresh);
            for (const figure of $$("figure.chart", fresh)) draw(figure);
          }
          for (const [figure, d] of drawn) if (!figure.isConnected) { d.plot.destroy(); drawn.delete(figure); }
        }
        if (again) { again = false; setTimeout(renew, 500); }
      };
      r.send();
    };
    events.addEventListener("steps", calm(renew));
    events.addEventListener("error", () => { says.classList.add("off"); says.textContent = "not live"; });
    events.addEventListener("open", () => { if (says.classList.contains("off")) { says.classList.remove("off"); says.textContent = "live"; renew(); } });
  }

  // ---- keys: j and k, or n and p, go from step to step

  addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName)) return;
    const to = { n: "a[rel=next]", j: "a[rel=next]", p: "a[rel=prev]", k: "a[rel=prev]" }[e.key];
    if (to) $(to)?.click();
    if (e.key === "/" && $("input[type=search]")) { e.preventDefault(); $("input[type=search]").focus(); }
  });

  // ---- narrow windows: cells say what they are, so that rows can be stacked

  function stack(within) {
    for (const table of $$(".wide table", within)) {
      const names = $$("thead th", table).map((th) => th.textContent.trim());
      for (const row of $$("tbody tr", table)) [...row.cells].forEach((cell, i) => { if (names[i] && cell.colSpan === 1) cell.dataset.label = names[i]; });
      table.classList.add("stacks");
    }
  }

  // ---- pages of an export share files: the one that the address names is unpacked

  async function unpack() {
    const packed = $("#packed");
    if (!packed) return;
    const bytes = Uint8Array.from(atob(packed.dataset.gzip.replaceAll("-", "+")), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const address = URL.createObjectURL(await new Response(stream, { headers: { "Content-Type": "text/html; charset=utf-8" } }).blob());
    const all = await new Promise((done, failed) => {
      const r = new XMLHttpRequest();
      r.open("GET", address);
      r.responseType = "document";
      r.onload = () => done(r.response);
      r.onerror = () => failed(new Error("the page could not be unpacked"));
      r.send();
    });
    URL.revokeObjectURL(address);
    const page = $(`[data-page="${CSS.escape(new URLSearchParams(location.search).get("page") ?? "")}"]`, all) ?? $("article", all);
    for (const text of $$("[data-same]", page)) text.textContent = $(`[data-text="${text.dataset.same}"]`, all).textContent;
    document.title = page.dataset.title + " · stepfall";
    packed.replaceWith(document.importNode(page, true));
    if (location.hash.startsWith("#call-") || location.hash.startsWith("#why-")) $(location.hash)?.scrollIntoView();
  }

  unpack().then(() => {
    stack(document);
    drawAll();
    for (const section of $$("section.why")) knob(section);
    filterHere();
    follow();
  });
  addEventListener("resize", calm(drawAll));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
})();
