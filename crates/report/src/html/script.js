'use strict';
// Moves the hand of each fault chart to a memory size: by pointer, or by the slider below it.
for (const chart of document.querySelectorAll('.chart.faults')) {
  const { headings, lines, leaders } = JSON.parse(chart.querySelector('script').textContent);
  const slider = chart.querySelector('input[type=range]');
  const leader = chart.querySelector('.leader');
  const charts = [...chart.querySelectorAll('svg')].map((svg) => ({
    svg,
    x: svg.dataset.x.split(' ').map(Number),
    hand: svg.querySelector('.hand'),
    heading: svg.querySelector('.heading'),
    values: [...svg.querySelectorAll('.value')],
    dots: [...svg.querySelectorAll('.dot')].map((dot) => ({ dot, y: dot.dataset.y.split(' ') })),
  }));
  const select = (size) => {
    slider.value = size;
    slider.setAttribute('aria-valuetext',
      headings[size] + ': ' + lines.map((line) => line.policy + ' ' + line.faults[size]).join(', '));
    if (leader) leader.textContent = leaders[size].join('. ');
    for (const { x, hand, heading, values, dots } of charts) {
      hand.setAttribute('x1', x[size]);
      hand.setAttribute('x2', x[size]);
      heading.textContent = headings[size];
      for (const value of values) value.textContent = lines[value.dataset.line].faults[size];
      for (const { dot, y } of dots) {
        dot.setAttribute('cx', x[size]);
        dot.setAttribute('cy', y[size]);
      }
    }
  };
  slider.addEventListener('input', () => select(Number(slider.value)));
  for (const { svg, x } of charts) {
    svg.addEventListener('pointermove', (event) => {
      const matrix = svg.getScreenCTM();
      if (!matrix) return;
      const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix.inverse()).x;
      let nearest = 0;
      x.forEach((place, size) => {
        if (Math.abs(place - at) < Math.abs(x[nearest] - at)) nearest = size;
      });
      select(nearest);
    });
    svg.addEventListener('pointerdown', (event) => svg.dispatchEvent(new PointerEvent('pointermove', event)));
  }
  select(Number(slider.value));
}

// A button for each line of a chart. While it has the pointer or the focus, the others are faint; a
// click leaves its line alone, and another brings all back. So does the pointer on the line itself.
for (const chart of document.querySelectorAll('.chart')) {
  const lines = new Map([...chart.querySelectorAll('svg [data-name]')].map((line) => [line.dataset.line, line]));
  if (lines.size < 2) continue;
  const marks = [...chart.querySelectorAll('svg [data-line]')];
  const buttons = new Map();
  let alone = null;
  const show = (line) => {
    for (const mark of marks) {
      mark.classList.toggle('behind', line !== null && mark.dataset.line !== line);
      mark.classList.toggle('gone', alone !== null && mark.dataset.line !== alone);
    }
  };
  const leave = (line) => {
    alone = alone === line ? null : line;
    for (const [name, button] of buttons) button.setAttribute('aria-pressed', name === alone);
    show(alone);
  };
  const keys = document.createElement('div');
  keys.className = 'keys';
  keys.setAttribute('role', 'group');
  keys.setAttribute('aria-label', 'One line alone');
  for (const [line, curve] of lines) {
    const button = document.createElement('button');
    const swatch = document.createElement('span');
    swatch.style.background = curve.style.stroke;
    button.type = 'button';
    button.setAttribute('aria-pressed', false);
    button.append(swatch, curve.dataset.name);
    for (const begins of ['pointerenter', 'focus']) button.addEventListener(begins, () => show(line));
    for (const ends of ['pointerleave', 'blur']) button.addEventListener(ends, () => show(alone));
    button.addEventListener('click', () => leave(line));
    buttons.set(line, button);
    keys.append(button);
  }
  chart.querySelector('.wide').before(keys);
  // The line within reach of the pointer, in units of the drawing.
  const near = (svg, event) => {
    const matrix = svg.getScreenCTM();
    if (!matrix) return null;
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix.inverse());
    let [line, least] = [null, 8];
    for (const curve of svg.querySelectorAll('polyline:not(.gone)')) {
      for (let end = 1; end < curve.points.length; end++) {
        const [a, b] = [curve.points[end - 1], curve.points[end]];
        const length = (b.x - a.x) ** 2 + (b.y - a.y) ** 2 || 1;
        const along = Math.min(1, Math.max(0, ((at.x - a.x) * (b.x - a.x) + (at.y - a.y) * (b.y - a.y)) / length));
        const away = Math.hypot(at.x - a.x - along * (b.x - a.x), at.y - a.y - along * (b.y - a.y));
        if (away < least) [line, least] = [curve.dataset.line, away];
      }
    }
    return line;
  };
  for (const svg of chart.querySelectorAll('svg')) {
    svg.addEventListener('pointermove', (event) => show(near(svg, event) ?? alone));
    svg.addEventListener('pointerleave', () => show(alone));
    svg.addEventListener('click', (event) => {
      const line = near(svg, event);
      if (line !== null || alone !== null) leave(line ?? alone);
    });
  }
}

// A flame graph: a box that is chosen takes the whole width, with what it calls.
for (const graph of document.querySelectorAll('.flame')) {
  const boxes = [...graph.querySelectorAll('button')].map((box) => ({
    box,
    left: parseFloat(box.style.left),
    width: parseFloat(box.style.width),
    top: parseFloat(box.style.top),
  }));
  const chosen = graph.querySelector('.chosen');
  const show = (whole) => {
    for (const { box, left, width, top } of boxes) {
      // A caller of the box has all of it, and is drawn as wide as the box.
      const calls = top < whole.top && left <= whole.left + 0.002 && left + width + 0.002 >= whole.left + whole.width;
      const from = Math.max(0, (left - whole.left) / whole.width);
      const to = Math.min(1, (left + width - whole.left) / whole.width);
      box.hidden = !calls && (top < whole.top || to - from < 0.002);
      box.style.left = (calls ? 0 : 100 * from) + '%';
      box.style.width = (calls ? 100 : 100 * Math.max(0, to - from)) + '%';
      box.classList.toggle('caller', calls);
    }
    chosen.textContent = whole.box.title;
  };
  for (const one of boxes) one.box.addEventListener('click', () => show(one));
  // One stop for Tab; the arrow keys go from box to box.
  const stop = (box) => {
    for (const other of boxes) other.box.tabIndex = other.box === box ? 0 : -1;
  };
  stop(boxes[0].box);
  graph.addEventListener('keydown', (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const shown = boxes.map(({ box }) => box).filter((box) => !box.hidden);
    const next = shown[shown.indexOf(document.activeElement) + step];
    if (!step || !next) return;
    event.preventDefault();
    stop(next);
    next.focus();
  });
}

// Tables can be sorted by any column, and searched.
for (const tables of document.querySelectorAll('.tables')) {
  const bodies = [...tables.querySelectorAll('tbody')];
  const search = tables.querySelector('input.search');
  const matches = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const body of bodies) {
      body.parentElement.classList.toggle('searched', words.length > 0);
      for (const row of body.rows) {
        const text = row.textContent.toLowerCase();
        row.hidden = row.className === 'sum' ? words.length > 0 : !words.every((word) => text.includes(word));
      }
    }
  };
  search.addEventListener('input', matches);
  tables.querySelector('p.search').hidden = false;
  for (const body of bodies) {
    const table = body.parentElement;
    [...table.tHead.rows[0].cells].forEach((cell, column) => {
      const button = document.createElement('button');
      button.type = 'button';
      button.append(...cell.childNodes);
      cell.append(button);
      button.addEventListener('click', () => {
        const down = cell.getAttribute('aria-sort') !== 'descending' && column > 0
          || cell.getAttribute('aria-sort') === 'ascending';
        for (const other of table.tHead.rows[0].cells) other.removeAttribute('aria-sort');
        cell.setAttribute('aria-sort', down ? 'descending' : 'ascending');
        const sizes = { KiB: 1024, MiB: 1024 ** 2, GiB: 1024 ** 3, B: 1 };
        const value = (row) => {
          const text = row.cells[column].textContent;
          const number = parseFloat(text.replaceAll(',', ''));
          const unit = /(KiB|MiB|GiB|B)$/.exec(text);
          return column === 0 || Number.isNaN(number) ? text : number * (unit ? sizes[unit[1]] : 1);
        };
        const order = (a, b) => (typeof a === 'number' && typeof b === 'number' ? a - b : String(a).localeCompare(b));
        const rows = [...body.rows].map((row) => [value(row), row]);
        rows.sort((a, b) => (a[1].className === 'sum') - (b[1].className === 'sum') || (down ? -1 : 1) * order(a[0], b[0]));
        body.append(...rows.map((pair) => pair[1]));
      });
    });
    const more = [...body.rows].filter((row) => row.className === 'more').length;
    if (more > 0) {
      const button = document.createElement('button');
      button.type = 'button';
      button.className = 'all';
      button.textContent = 'Show ' + more + ' more rows';
      button.addEventListener('click', () => {
        table.classList.add('whole');
        button.remove();
      });
      table.parentElement.after(button);
    }
  }
}

// Of the seconds, those on the device that is chosen.
for (const seconds of document.querySelectorAll('.seconds')) {
  const select = seconds.querySelector('select');
  const devices = [...seconds.querySelectorAll('.on-device')];
  const show = () => devices.forEach((device, at) => { device.hidden = at !== select.selectedIndex; });
  select.addEventListener('change', show);
  seconds.querySelector('.device').hidden = devices.length < 2;
  show();
}
