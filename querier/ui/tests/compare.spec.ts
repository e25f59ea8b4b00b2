// Two sides: amounts and shares, one scale for both charts, colours of the palette, and sides without profiles.
import { expect, test, type Page } from '@playwright/test';
import { diffScale, paintChange } from '../src/flame/colors';
import { buildFlame, ROOT } from '../src/flame/model';
import { amountChange, byAmount, changeBy, normOf, shareChange } from '../src/flame/norm';
import { closest } from '../src/nearest';
import { accessible, answerWith, canvas, CHECKOUT, CPU, hover, parameter, settled, watch } from './pages';
import { contrast } from './contrast';
import { encodeDiff, encodeResponse } from './profiles.mjs';

const change = (left: [string, number][], right: [string, number][]) => buildFlame(encodeDiff(left, right), true);
/** Only c is new: a and b use as much as before. */
const BEFORE: [string, number][] = [['a', 6e9], ['b', 4e9]], AFTER: [string, number][] = [['a', 6e9], ['b', 4e9], ['c', 10e9]];
const at = (f: ReturnType<typeof change>, name: string) => f.names.indexOf(name);
const frame = (f: ReturnType<typeof change>, name: string) => f.name.indexOf(at(f, name));

test('one regression colours nothing else if amounts are compared, and takes from every share', () => {
  const f = change(BEFORE, AFTER), per = { left: 1e-9 / 10, right: 1e-9 / 10 };
  const abs = normOf('abs', CPU, f, per), share = normOf('share', CPU, f, per);
  const by = (n: typeof abs, name: string) => changeBy(n, f.total[frame(f, name)], f.right!.total[frame(f, name)]);
  expect(['a', 'b', 'c'].map((n) => by(abs, n))).toEqual([0, 0, 1]);
  expect(['a', 'b', 'c'].map((n) => Number(by(share, n).toFixed(3)))).toEqual([-0.3, -0.2, 0.5]);
  const scale = diffScale('light', 'safe'), grey = scale[(scale.length - 1) / 2];
  const colors = (n: typeof abs) => {
    const paint = paintChange(f, 'light', 'safe', n);
    return ['a', 'b', 'c'].map((name) => paint.styles[paint.styleOf(f, frame(f, name))]);
  };
  expect(colors(abs)).toEqual([grey, grey, scale[scale.length - 1]]);
  expect(colors(share)).not.toContain(grey);
  expect(paintChange(f, 'light', 'safe', abs).scale).toMatchObject({ from: '−0.25 cores', to: '+0.25 cores' });
  expect(paintChange(f, 'light', 'safe', share).scale).toMatchObject({ from: '−25 pp', to: '+25 pp' });
});

test('amounts are per second: a range twice as long with twice as much has not changed', () => {
  const f = change([['a', 10e9]], [['a', 20e9]]), norm = normOf('abs', CPU, f, { left: 1e-9 / 10, right: 1e-9 / 20 });
  expect(changeBy(norm, 10e9, 20e9)).toBe(0);
  expect(amountChange(norm, 10e9, 30e9)).toMatch(/^\+.*50.* cores?$|^\+500 m/);
  expect(amountChange(norm, 10e9, 0)).toMatch(/^−1/);
  const uneven = normOf('abs', CPU, f, { left: 1e-9 / 1800, right: 1e-9 / 1800.001 }); // halves of an odd number of milliseconds
  expect(amountChange(uneven, 10e9, 10e9)).toMatch(/^0/);
  expect(shareChange(norm, 10e9, 20e9, { left: 10e9, right: 20e9 })).toBe('0 pp');
});

test('bars of amounts are as wide as both sides together, children within their callers', () => {
  const f = change([['m;a', 6], ['m;b', 2], ['m', 2]], [['m;a', 6], ['m;c;d', 24]]);
  const g = byAmount(f, normOf('abs', CPU, f, { left: 1, right: 1 })), of = (name: string) => [g.x[frame(g, name)], g.w[frame(g, name)]].map((v) => Number(v.toFixed(6)));
  expect([g.x[ROOT], g.w[ROOT]]).toEqual([0, 1]);
  expect([of('m'), of('a'), of('b'), of('c'), of('d')]).toEqual([[0, 1], [0.05, 0.3], [0.35, 0.05], [0.4, 0.6], [0.4, 0.6]]);
});

test('with an empty side nothing has changed, and nothing is coloured', () => {
  for (const f of [change([], AFTER), change(BEFORE, [])]) {
    for (const kind of ['abs', 'share'] as const) {
      const norm = normOf(kind, CPU, f, { left: 1, right: 1 }), paint = paintChange(f, 'dark', 'safe', norm), scale = diffScale('dark', 'safe');
      expect(new Set(Array.from({ length: f.count }, (_, i) => paint.styles[paint.styleOf(f, i)]))).toEqual(new Set([scale[(scale.length - 1) / 2]]));
      expect([amountChange(norm, 0, 5), shareChange(norm, 0, 5, { left: 0, right: 5 }), paint.scale!.from]).toEqual(['–', '–', '']);
    }
  }
});

test('the nearest of what there is, before or after', () => {
  const point = (t: number, v = 1) => ({ t, v }), range = { start: 1000, end: 2000 };
  expect(closest([], 100, range)).toBe(null);
  expect(closest([point(200), point(900), point(2400)], 100, range)).toEqual(point(900));
  expect(closest([point(200), point(2200)], 100, range)).toEqual(point(2200));
  expect(closest([point(900, 0), point(200)], 100, range)).toEqual(point(200));
});

test('the texts of changes can be read on both themes in both palettes', async ({ page }) => {
  const hex = (rgb: string) => `#${rgb.match(/\d+/g)!.slice(0, 3).map((n) => Number(n).toString(16).padStart(2, '0')).join('')}`;
  await sides(page, [['a', 5e9], ['b', 5e9]], [['a', 9e9], ['b', 1e9]]);
  const seen = new Set<string>();
  for (const palette of ['safe', 'classic']) {
    await page.goto(compare(`&palette=${palette}`));
    for (const colorScheme of ['dark', 'light'] as const) {
      await page.emulateMedia({ colorScheme });
      await expect.poll(() => page.evaluate(() => document.documentElement.dataset.theme)).toBe(colorScheme);
      for (const which of ['.rises', '.falls']) {
        const [text, back] = await page.locator(`.moves ${which}`).first().evaluate((el) => [getComputedStyle(el).color, getComputedStyle(el.parentElement!).backgroundColor]);
        expect(contrast(hex(text), hex(back)), `${palette} ${colorScheme} ${which}`).toBeGreaterThanOrEqual(4.5);
        seen.add(text);
      }
    }
  }
  expect(seen.size, 'each palette and theme has its own two').toBe(8);
});

const HOUR = 3600e3, END = 1795172400000, START = END - HOUR;
const compare = (rest = '') => `/compare?query=${encodeURIComponent(CHECKOUT)}&from=${START}&until=${END}${rest}`;
const sides = (page: Page, left: [string, number][], right: [string, number][]) =>
  answerWith(page, 'Diff', (r) => r.fulfill({ contentType: 'application/proto', body: encodeResponse(encodeDiff(left, right)) }));
const rows = (page: Page) => page.locator('.trow');

let troubles: string[] = [];
test.beforeEach(({ page }) => {
  troubles = watch(page);
});
test.afterEach(() => {
  expect(troubles).toEqual([]);
});

test('a function that grew only in what it calls has a chip of its total, once and not with its callers', async ({ page }) => {
  const steps = Array.from({ length: 22 }, (_, i): [string, number] => [`main;serve;parse;parse;step${i}`, 20e9]);
  await sides(page, [['main;serve;idle', 1000e9]], [['main;serve;idle', 560e9], ...steps]);
  await page.goto(compare('&norm=share'));
  const totals = page.getByRole('list', { name: 'Biggest changes of total' });
  await expect(totals.getByRole('button')).toHaveText(['parse+44.0 pp']);
  await expect(page.getByRole('list', { name: 'Biggest changes of self' }).getByRole('button').first()).toHaveText('idle−44.0 pp');
  await totals.getByRole('button').click();
  await expect.poll(() => parameter(page, 'fn')).toBe('parse');
});

test('amounts and shares: chips, table, tooltip, legend and words follow the choice', async ({ page }) => {
  await sides(page, [['main;a', 900e9], ['main;b', 900e9]], [['main;a', 900e9], ['main;b', 900e9], ['main;slow', 1800e9]]);
  await page.goto(compare());
  const moves = page.getByRole('list', { name: 'Biggest changes of self' });
  await expect(moves.getByRole('button')).toHaveText([/^slow\+1\.00 cores?$/]);
  await expect(page.getByRole('button', { name: 'Absolute' })).toHaveAttribute('aria-pressed', 'true');
  await expect(page.getByText('What uses as much as before stays grey.')).toBeVisible();
  await expect(page.getByRole('img', { name: 'Colours from' })).toHaveAccessibleName(/cores/);
  await expect(rows(page).filter({ hasText: 'slow' })).toHaveText(/slow01\.00\+50\.0 pp\+1\.00 cores?/);
  await hover(page, 0.95, 2);
  await expect(page.getByRole('tooltip')).toHaveText(/slowBaselineComparisonChangeShare0 %50\.0 %\+50\.0 ppRate.*1\.00 cores?\+1\.00 cores?Total030\.0 minnewSelf030\.0 min\+1\.00 core/);
  await page.getByRole('button', { name: 'Share', exact: true }).click();
  await expect.poll(() => parameter(page, 'norm')).toBe('share');
  await expect(moves.getByRole('button')).toHaveText(['slow+50.0 pp', 'b−25.0 pp', 'a−25.0 pp']);
  await expect(rows(page).filter({ hasText: 'slow' })).toHaveText(/slow0 %50\.0 %\+1\.00 cores?\+50\.0 pp/);
  await expect(page.getByRole('img', { name: 'Colours from −25 pp to +25 pp' })).toBeVisible();
  await page.reload();
  await expect(page.getByRole('button', { name: 'Share', exact: true })).toHaveAttribute('aria-pressed', 'true');
});

test('sides of other labels are compared by share unless amounts are asked for', async ({ page }) => {
  await sides(page, BEFORE, AFTER);
  const other = `&rightQuery=${encodeURIComponent(`${CPU}{service_name="checkout", region="eu"}`)}`;
  await page.goto(compare(other));
  await expect(page.getByRole('button', { name: 'Share', exact: true })).toHaveAttribute('aria-pressed', 'true');
  await page.getByRole('button', { name: 'Absolute' }).click();
  await expect.poll(() => parameter(page, 'norm')).toBe('abs');
  await expect(page.getByRole('button', { name: 'Absolute' })).toHaveAttribute('aria-pressed', 'true');
});

test('a gauge is compared by the means of its profiles, however many there were', async ({ page }) => {
  const heap = 'memory:inuse_space:bytes:space:bytes', MIB = 2 ** 20;
  await sides(page, [['main;a', 100 * MIB]], [['main;a', 600 * MIB]]); // 10 profiles and 30
  await answerWith(page, 'SelectSeries', (r) => {
    const { start, end, aggregation } = r.request().postDataJSON(), one = end - start <= HOUR / 2;
    expect(aggregation).toBe('TIME_SERIES_AGGREGATION_TYPE_AVERAGE');
    return r.fulfill({ json: { series: [{ points: [{ timestamp: String(end), value: one && end === END ? 20 * MIB : 10 * MIB }] }] } });
  });
  await page.goto(`/compare?query=${encodeURIComponent(`${heap}{service_name="checkout"}`)}&from=${START}&until=${END}`);
  await expect(page.getByRole('heading', { name: 'Change of in-use space' })).toBeVisible();
  await expect(rows(page).filter({ hasText: 'a' }).first()).toHaveText(/a10\.0 MiB20\.0 MiB0 pp\+10\.0 MiB/);
  await hover(page, 0.5, 1);
  await expect(page.getByRole('tooltip')).toContainText('Mean10.0 MiB20.0 MiB+10.0 MiB');
});

test('both charts have one scale', async ({ page }) => {
  await answerWith(page, 'SelectSeries', (r) => {
    const { start, end, step, labelSelector } = r.request().postDataJSON(), points = [];
    const cores = labelSelector.includes('eu') ? 8 : 1;
    for (let t = start; t <= end; t += step * 1000) points.push({ timestamp: String(t), value: cores * step * 1e9 });
    return r.fulfill({ json: { series: [{ points }] } });
  });
  await page.goto(compare(`&rightQuery=${encodeURIComponent(`${CPU}{service_name="checkout", region="eu"}`)}`));
  await settled(page);
  // The height of a line, as the ink of its colour's topmost row: one eighth as high on the left as on the right.
  const heights = async () => page.locator('.over canvas').evaluateAll((all) => all.map((c) => {
    const { width, height } = c as HTMLCanvasElement, { data } = (c as HTMLCanvasElement).getContext('2d')!.getImageData(Math.round(width * 0.55), 0, 1, height);
    for (let y = 0; y < height; y++) {
      const [r, g, b, alpha] = data.subarray(4 * y, 4 * y + 4);
      if (alpha > 200 && Math.max(r, g, b) - Math.min(r, g, b) > 90 && y > 0.12 * height) return 1 - y / height;
    }
    return 0;
  }));
  await expect.poll(async () => {
    const [left, right] = await heights();
    return left > 0 && right > 0 ? right - left > 0.4 : null;
  }).toBe(true);
});

for (const [side, title] of [['left', 'Baseline'], ['right', 'Comparison']] as const) {
  test(`${title} without profiles: said, nothing coloured, and one click goes to the nearest that there are`, async ({ page }) => {
    const asked: { start: number; end: number }[] = [], there = END - 30 * 86400e3;
    await sides(page, side === 'left' ? [] : BEFORE, side === 'left' ? AFTER : []);
    await answerWith(page, 'GetProfileStats', (r) => r.fulfill({ json: { dataIngested: true, oldestProfileTime: String(there - 1000), newestProfileTime: String(END - 1000) } }));
    await answerWith(page, 'SelectSeries', (r) => {
      const { start, end, step } = r.request().postDataJSON();
      asked.push({ start, end });
      const t = start + Math.ceil((there - start) / step / 1000) * step * 1000;
      return r.fulfill({ json: { series: start < there && end >= there ? [{ points: [{ timestamp: String(t), value: 5e9 }] }] : [] } });
    });
    await page.goto(compare(`&${side}From=${START - 86400e3}&${side}Until=${END - 86400e3}`));
    const note = page.getByRole('status', { name: 'No profiles' });
    await expect(note).toContainText(`${title}: no profiles.`);
    await expect(page.locator('.moves')).toHaveCount(0);
    await expect(page.getByRole('img', { name: /^Colours from/ })).toHaveCount(0);
    await expect(rows(page).first()).toHaveText(/–$/);
    await expect(canvas(page)).toBeVisible();
    const use = note.getByRole('button', { name: /^Use the nearest: 21 Oct 2026/ });
    await expect(use).toBeVisible();
    for (const [colorScheme, width] of [['light', 1400], ['dark', 390]] as const) {
      await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
      await page.setViewportSize({ width, height: 844 });
      await expect.poll(() => page.evaluate(() => document.documentElement.scrollWidth), `${width}`).toBe(width);
      await accessible(page, `${colorScheme}, ${width}`);
    }
    expect(asked.length, 'a few questions').toBeLessThan(8);
    await use.click();
    await expect.poll(() => Number(parameter(page, `${side}Until`)) - Number(parameter(page, `${side}From`))).toBe(HOUR);
    const [from, until] = ['From', 'Until'].map((k) => Number(parameter(page, side + k)));
    expect(from < there + HOUR && until > there - HOUR, `${from} ${until} ${there}`).toBe(true);
    expect(Number(parameter(page, side === 'left' ? 'rightFrom' : 'leftFrom'))).toBe(START); // the other side stays
  });
}

test('neither side has profiles, nor anything else of the query', async ({ page }) => {
  await sides(page, [], []);
  await answerWith(page, 'GetProfileStats', (r) => r.fulfill({ json: { dataIngested: true, oldestProfileTime: String(START), newestProfileTime: String(END) } }));
  await answerWith(page, 'SelectSeries', (r) => r.fulfill({ json: { series: [] } }));
  await page.goto(compare());
  const note = page.getByRole('status', { name: 'No profiles' });
  await expect(note).toContainText(/Baseline: no profiles\..*Comparison: no profiles\./);
  await expect(note.getByText('This query has no profiles at any other time.')).toHaveCount(2);
  await expect(canvas(page)).toHaveCount(0);
});

for (const [what, rest] of [['amounts', ''], ['shares in green and red', '&norm=share&palette=classic']]) {
  test(`${what}: accessible in both themes, 1400 and 390 px wide`, async ({ page }) => {
    test.slow();
    await page.goto(compare(rest));
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
      for (const width of [1400, 390]) {
        await page.setViewportSize({ width, height: 844 });
        await expect(page.locator('.moves')).toBeVisible();
        await settled(page);
        await expect.poll(() => page.evaluate(() => document.documentElement.scrollWidth), `${width}`).toBe(width);
        await accessible(page, `${colorScheme}, ${width}`);
      }
    }
  });
}
