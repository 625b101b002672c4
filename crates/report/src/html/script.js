'use strict';
// Moves the hand of each fault chart to a memory size: by pointer, or by the slider below it.
for (const chart of document.querySelectorAll('.chart.faults')) {
  const { headings, lines } = JSON.parse(chart.querySelector('script').textContent);
  const slider = chart.querySelector('input[type=range]');
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
