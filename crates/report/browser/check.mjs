// Looks at a page of ours in headless Chromium, as a reader would: node check.mjs PAGE.html [FOLDER FOR SCREENSHOTS]
//
// Fails if the page says anything on the console, asks for anything from outside, is wider than a phone, has words that do not
// stand out from their ground, or cannot be gone through by keyboard; of a report also if the values do not follow the pointer
// and the keyboard, if tables cannot be sorted and searched, and if the flame graph does not open by keyboard. Needs Debian's packages nodejs and chromium, no package of Node's.
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';

const [page, folder] = process.argv.slice(2);
if (!page || !existsSync(page)) {
  console.error('usage: node check.mjs PAGE.html [FOLDER FOR SCREENSHOTS]');
  process.exit(2);
}
const profile = mkdtempSync(join(tmpdir(), 'report-check-'));
const browser = spawn('chromium', ['--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage',
  '--no-first-run', '--disable-background-networking', '--disable-component-update', '--remote-debugging-pipe',
  `--user-data-dir=${profile}`, 'about:blank'], { stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'] });
browser.on('error', () => {
  console.error('chromium cannot be started: apt-get install chromium');
  process.exit(2);
});
setTimeout(() => {
  console.error('chromium does not answer within two minutes');
  browser.kill();
  process.exit(2);
}, 120_000).unref();
const failures = [];
const check = (holds, what) => {
  console.log(`${holds ? 'ok  ' : 'FAIL'} ${what}`);
  if (!holds) failures.push(what);
};

try {
  const waiting = new Map();
  const listeners = [];
  let calls = 0;
  const receive = (message) => {
    const call = waiting.get(message.id);
    waiting.delete(message.id);
    if (message.error) call?.failed(new Error(message.error.message));
    else if (call) call.done(message.result);
    else listeners.forEach((listen) => listen(message));
  };
  // The browser's protocol: JSON, each message ended by a zero byte, on its descriptors 3 (in) and 4 (out).
  const [, , , toBrowser, fromBrowser] = browser.stdio;
  let text = '';
  fromBrowser.setEncoding('utf8').on('data', (data) => {
    const messages = (text + data).split('\0');
    text = messages.pop();
    messages.forEach((message) => receive(JSON.parse(message)));
  });
  let session;
  const call = (method, params = {}) => new Promise((done, failed) => {
    calls += 1;
    waiting.set(calls, { done, failed });
    toBrowser.write(`${JSON.stringify({ id: calls, method, params, sessionId: session })}\0`);
  });
  const { targetId } = await call('Target.createTarget', { url: 'about:blank' });
  session = (await call('Target.attachToTarget', { targetId, flatten: true })).sessionId;
  const said = [];
  const asked = [];
  let loaded = () => {};
  listeners.push(({ method, params }) => {
    if (method === 'Runtime.consoleAPICalled') said.push(params.args.map((value) => value.value).join(' '));
    if (method === 'Runtime.exceptionThrown') said.push(params.exceptionDetails.text);
    if (method === 'Log.entryAdded') said.push(params.entry.text);
    if (method === 'Network.requestWillBeSent') asked.push(params.request.url);
    if (method === 'Page.loadEventFired') loaded();
  });
  for (const domain of ['Page', 'Runtime', 'Log', 'Network']) await call(`${domain}.enable`);
  const evaluate = async (expression) => (await call('Runtime.evaluate', { expression, returnByValue: true })).result.value;
  const open = async (width, scheme) => {
    await call('Emulation.setDeviceMetricsOverride', { width, height: 900, deviceScaleFactor: 1, mobile: width < 600 });
    await call('Emulation.setEmulatedMedia', { features: [{ name: 'prefers-color-scheme', value: scheme }] });
    const ready = new Promise((done) => { loaded = done; });
    const start = performance.now();
    await call('Page.navigate', { url: pathToFileURL(resolve(page)).href });
    await ready;
    return performance.now() - start;
  };
  const key = async (name, code) => {
    for (const type of ['keyDown', 'keyUp']) {
      await call('Input.dispatchKeyEvent', { type, key: name, code: name, windowsVirtualKeyCode: code });
    }
  };

  for (const width of [390, 1440]) {
    for (const scheme of ['light', 'dark']) {
      const taken = await open(width, scheme);
      check(taken < 2000, `opens in ${taken.toFixed(0)} ms at ${width} px, ${scheme}`);
      const wide = await evaluate('document.documentElement.scrollWidth');
      check(wide <= width, `is ${wide} px wide on a screen of ${width} px`);
      const long = await evaluate(`(() => {
        // Names of C++ have no place to break.
        const named = [...document.querySelectorAll('.part p, .objects tbody tr > :first-child')];
        const before = named.map((name) => name.innerHTML);
        named.forEach((name) => { name.textContent = 'llvm::SmallVectorTemplateBase'.repeat(9); });
        const wide = document.documentElement.scrollWidth;
        const cut = [...document.querySelectorAll('.objects')].filter((table) => table.scrollWidth > table.parentElement.clientWidth + 1).length;
        named.forEach((name, at) => { name.innerHTML = before[at]; });
        return [wide, cut];
      })()`);
      check(long[0] <= width && (width > 600 || long[1] === 0), `with long names it is ${long[0]} px wide, and ${long[1]} tables are cut`);
      const numbers = await evaluate(`(() => {
        const cells = [...document.querySelectorAll('.objects tbody td:not(:last-child)')];
        const before = cells.map((cell) => cell.innerHTML);
        cells.forEach((cell) => { cell.textContent = '1,234,567,890'; });
        const cut = cells.filter((cell) => cell.scrollWidth > cell.clientWidth + 1).length;
        cells.forEach((cell, at) => { cell.innerHTML = before[at]; });
        return [cells.length, cut];
      })()`);
      check(numbers[1] === 0, `of ${numbers[0]} cells with numbers of billions ${numbers[1]} are cut at ${width} px`);
      const clipped = await evaluate(`(() => {
        const out = [];
        for (const svg of document.querySelectorAll('svg')) {
          const frame = svg.getBoundingClientRect();
          for (const text of svg.querySelectorAll('text')) {
            const box = text.getBoundingClientRect();
            if (box.width && (box.left < frame.left - 1 || box.right > frame.right + 1 || box.bottom > frame.bottom + 1)) {
              out.push(text.textContent);
            }
          }
        }
        return out;
      })()`);
      check(clipped.length === 0, `no words leave their chart at ${width} px ${JSON.stringify(clipped)}`);
      // Contrast as WCAG 2 has it, AA: 4.5, or 3 for large words.
      const [least, faint] = await evaluate(`(() => {
        const parts = (colour) => (colour.match(/[\\d.]+/g) ?? []).map(Number);
        const luminance = (colour) => {
          const [r, g, b] = parts(colour).map((part) => part / 255).map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
          return 0.2126 * r + 0.7152 * g + 0.0722 * b;
        };
        const ground = (element) => {
          for (let at = element; at; at = at.parentElement) {
            const colour = getComputedStyle(at).backgroundColor;
            if (parts(colour)[3] !== 0) return colour;
          }
          return getComputedStyle(document.body).backgroundColor;
        };
        const faint = new Set();
        let least = 21;
        for (const element of document.querySelectorAll('body *')) {
          const words = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
          if (!words || !element.getClientRects().length || ['SCRIPT', 'STYLE'].includes(element.tagName)) continue;
          const style = getComputedStyle(element);
          const colour = element.closest('svg') ? style.fill : style.color;
          const pair = [luminance(colour), luminance(ground(element))].map((value) => value + 0.05);
          const ratio = Math.max(...pair) / Math.min(...pair);
          least = Math.min(least, ratio);
          if (ratio < (parseFloat(style.fontSize) >= 24 ? 3 : 4.5)) faint.add(element.textContent.trim().slice(0, 30));
        }
        return [least, [...faint].slice(0, 5)];
      })()`);
      check(faint.length === 0, `words stand out at ${width} px, ${scheme}: ${least.toFixed(1)} to 1 at least ${JSON.stringify(faint)}`);
      if (folder) {
        const { data } = await call('Page.captureScreenshot', { captureBeyondViewport: true, format: 'png',
          clip: { x: 0, y: 0, width, height: await evaluate('document.documentElement.scrollHeight'), scale: 1 } });
        writeFileSync(join(folder, `report-${width}-${scheme}.png`), Buffer.from(data, 'base64'));
      }
    }
  }

  await open(1440, 'light');
  // Tab goes through every link, control and table that scrolls, and each shows that it has the focus.
  const reachable = await evaluate(`[...document.querySelectorAll('a[href], input, select, summary, button:not([tabindex="-1"]), [tabindex="0"]')].filter((element) => element.checkVisibility()).length`);
  await evaluate('window.scrollTo(0, 0)');
  const unseen = [];
  for (let step = 0; step < reachable; step += 1) {
    await key('Tab', 9);
    const [seen, name] = await evaluate(`(() => {
      const element = document.activeElement;
      element.dataset.reached = 'yes';
      return [getComputedStyle(element).outlineStyle !== 'none', element.tagName + ' ' + element.textContent.slice(0, 20)];
    })()`);
    if (!seen) unseen.push(name);
  }
  const reached = await evaluate("document.querySelectorAll('[data-reached]').length");
  check(reached === reachable, `${reached} of ${reachable} links, controls and tables are reached by Tab`);
  check(unseen.length === 0, `the focus is seen on each ${JSON.stringify(unseen.slice(0, 5))}`);
  const summaries = await evaluate("document.querySelectorAll('details').length");
  if (summaries > 0) {
    await evaluate("document.querySelector('summary').focus()");
    await key(' ', 32);
    check(await evaluate("document.querySelector('details').open"), 'what is folded opens at the press of a key');
  }

  if (await evaluate("document.querySelector('.faults') !== null")) {
    await open(1440, 'light');
    const isLogarithmic = await evaluate("document.querySelector('.faults .log').checked");
    if (isLogarithmic) await evaluate("document.querySelector('.faults .log').click()");
    const heading = () => evaluate("document.querySelector('.faults .wide.linear .heading').textContent");
    const box = await evaluate(`(() => {
      const svg = document.querySelector('.faults .wide.linear svg');
      svg.scrollIntoView({ block: 'center' });
      const { x, y, width, height } = svg.getBoundingClientRect();
      return { x, y, width, height };
    })()`);
    const values = () => evaluate("[...document.querySelectorAll('.faults .wide.linear .value')].map((value) => value.textContent).join()");
    const point = (share) => call('Input.dispatchMouseEvent',
      { type: 'mouseMoved', x: box.x + share * box.width, y: box.y + box.height / 2 });
    await point(0.3);
    const [left, leftValues] = [await heading(), await values()];
    await point(0.8);
    const [right, rightValues] = [await heading(), await values()];
    check(left !== right && leftValues !== rightValues, `values follow the pointer: ${left}, ${right}`);
    const same = await evaluate(`(() => {
      const chart = document.querySelector('.faults');
      const size = chart.querySelector('input[type=range]').value;
      const cells = [...chart.querySelectorAll('tbody tr')[size].children].slice(3);
      const shown = [...chart.querySelectorAll('.wide.linear .value')];
      return shown.length === cells.length && shown.every((value) => cells[value.dataset.line].textContent === value.textContent);
    })()`);
    check(same, 'the values shown are those of the table');

    // Tab from the start of the page until the slider has the focus, then move it.
    await evaluate('window.scrollTo(0, 0)');
    let focused = '';
    for (let step = 0; step < 20 && focused !== 'range'; step += 1) {
      await key('Tab', 9);
      focused = await evaluate("document.activeElement.type || ''");
    }
    check(focused === 'range', 'the slider is reached by Tab');
    await key('Home', 36);
    const first = await heading();
    await key('ArrowRight', 39);
    const second = await heading();
    check(first !== second, `values follow the keyboard: ${first}, ${second}`);
    const spoken = await evaluate("document.activeElement.getAttribute('aria-valuetext')");
    check(spoken.startsWith(second) && spoken.includes('opt '), `a screen reader says: ${spoken}`);
    const follows = () => evaluate("document.querySelector('.faults .leader')?.textContent");
    const last = await follows();
    if (last !== undefined) {
      await key('End', 35);
      const all = await follows();
      check(last.includes(' follows ') && all.includes(' follows '), `and of the leader: ${last} | ${all}`);
      await evaluate("document.querySelector('.leaders').closest('details').querySelector('summary').focus()");
      await key('Enter', 13);
      const rows = "document.querySelector('.leaders').getClientRects().length > 0 && document.querySelectorAll('.leaders tbody tr').length";
      check(await evaluate(rows) > 1, 'the table of leaders opens by keyboard');
      await evaluate("document.querySelector('.faults input[type=range]').focus()");
    }
    const outline = await evaluate("getComputedStyle(document.activeElement).outlineStyle");
    check(outline !== 'none', 'the focus is seen');

    const shown = (selector) => evaluate(`document.querySelector('${selector}').getClientRects().length > 0`);
    check(await shown('.faults .wide.linear') && !(await shown('.faults .wide.logarithmic')), 'the scale is linear');
    await evaluate("document.querySelector('.faults .log').focus()");
    await key(' ', 32);
    check(!(await shown('.faults .wide.linear')) && await shown('.faults .wide.logarithmic'), 'and logarithmic at the press of a key');
    const seen = () => evaluate(
      "[...document.querySelector('.faults').querySelectorAll('.wide.logarithmic polyline')].filter((line) => getComputedStyle(line).visibility === 'visible').map((line) => line.dataset.line).filter((line, at, all) => all.indexOf(line) === at).length");
    const all = await seen();
    await evaluate("document.querySelectorAll('.faults .keys button')[1].focus()");
    check(await evaluate("document.querySelectorAll('.faults polyline.behind').length > 0"), 'a line is brought out by the focus');
    await key(' ', 32);
    const alone = await seen();
    await key(' ', 32);
    check(all > 1 && alone === 1 && await seen() === all, `a line is alone at the press of a key: ${all}, ${alone}`);
    await evaluate("document.querySelector('.show-written').click()");
    check(!(await shown('.map img.written')) && await shown('.map img.read'), 'reads are shown without writes');
    if (folder) {
      const { data } = await call('Page.captureScreenshot', { format: 'png' });
      writeFileSync(join(folder, 'report-logarithmic.png'), Buffer.from(data, 'base64'));
    }
  }
  if (await evaluate("document.querySelector('.tables input.search') !== null")) {
    await open(1440, 'light');
    const column = (n) => evaluate(`[...document.querySelectorAll('.objects tbody')].at(-1).querySelectorAll('tr:not([hidden]):not(.sum)').length === 0 ? []
      : [...[...document.querySelectorAll('.objects tbody')].at(-1).querySelectorAll('tr:not([hidden]):not(.sum)')].map((row) => row.cells[${n}].textContent)`);
    const number = (word) => parseFloat(word.replaceAll(',', ''));
    await evaluate("[...document.querySelectorAll('.objects')].at(-1).tHead.rows[0].cells[1].querySelector('button').focus()");
    await key(' ', 32);
    const down = (await column(1)).map(number);
    await key(' ', 32);
    const up = (await column(1)).map(number);
    const sorted = down.every((value, at) => at === 0 || down[at - 1] >= value) && up.every((value, at) => at === 0 || up[at - 1] <= value);
    check(sorted, `a table is sorted by keyboard, both ways: ${down.length} rows`);
    const all = (await column(0)).length;
    await evaluate("document.querySelector('input.search').focus()");
    for (const letter of 'no object') await call('Input.dispatchKeyEvent', { type: 'char', text: letter });
    const found = await column(0);
    check(found.length <= all && found.every((name) => name.includes('no object')), `the search keeps ${found.length} of ${all} objects`);
  }
  if (await evaluate("document.querySelector('.flame') !== null")) {
    await open(1440, 'light');
    await evaluate("document.querySelector('.flame button').focus()");
    await key('ArrowRight', 39);
    await key('ArrowRight', 39);
    const name = await evaluate('document.activeElement.textContent');
    await key(' ', 32);
    const [width, all] = await evaluate("[document.activeElement.clientWidth, document.querySelector('.flame .boxes').clientWidth]");
    check(width >= all - 2, `a box of the flame graph takes the whole width at the press of a key: ${name}`);
    if (folder) {
      const { data } = await call('Page.captureScreenshot', { format: 'png' });
      writeFileSync(join(folder, 'report-flame.png'), Buffer.from(data, 'base64'));
    }
  }
  check(said.length === 0, `nothing on the console ${JSON.stringify(said)}`);
  const outside = asked.filter((url) => !/^(file|data|about):/.test(url));
  check(outside.length === 0, `nothing from the network ${JSON.stringify(outside)}`);
} finally {
  const gone = new Promise((done) => browser.on('exit', done));
  browser.kill();
  await gone;
  // The browser's other processes may write to the profile for a moment longer.
  for (let left = 50; ; left--) {
    try {
      rmSync(profile, { recursive: true, force: true });
      break;
    } catch (error) {
      if (left === 0 || error.code !== 'ENOTEMPTY') throw error;
      await new Promise((done) => setTimeout(done, 100));
    }
  }
}
process.exitCode = failures.length ? 1 : 0;
