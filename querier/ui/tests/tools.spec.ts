// Tests of the tools of a profile: folded frames, the next match, the wide table, functions found again.
import { expect, test, type Page } from '@playwright/test';
import { makePaint, PALETTES } from '../src/flame/colors';
import { greyStyles } from '../src/flame/draw';
import { preferredType } from '../src/ptype';
import { contrast } from './contrast';
import { accessible, answerWith, canvas, flame, graphOf, hover, parameter, settled, watch } from './pages';
import { encodeLevels, encodeResponse } from './profiles.mjs';
import { readGraphResponse } from '../src/api/wire';
import { buildFlame } from '../src/flame/model';

type Stacks = [string, number][];
const FIB: Stacks = [['runtime.goexit;main.main;main.fib;main.fib;main.fib', 4e9], ['runtime.goexit;main.main;main.fib;runtime.mallocgc', 1e9], ['runtime.gcBgMarkWorker', 1e9]];

let troubles: string[] = [];
test.beforeEach(({ page }) => {
  troubles = watch(page);
});
test.afterEach(() => {
  expect(troubles).toEqual([]);
});

async function open(page: Page, rest: string, stacks: Stacks) {
  await answerWith(page, 'SelectMergeStacktraces', (r) => r.fulfill(graphOf(stacks)));
  await page.goto(flame(rest));
  await expect(page.locator('.total')).toContainText('total');
}
const rows = (page: Page) => page.getByRole('table', { name: 'Functions' }).locator('.trow');
const row = (page: Page, name: string) => rows(page).filter({ has: page.getByRole('button', { name, exact: true }) });
const tip = (page: Page) => page.getByRole('tooltip').locator('.function');
const nav = (page: Page) => page.getByRole('group', { name: 'Matches' });
const MANY: Stacks = Array.from({ length: 400 }, (_, i): [string, number] => [`main;f${String(i).padStart(3, '0')}`, 1e6 * (401 - i)]);

test('recursion folded, without the runtime, both: in the picture, the table, the address', async ({ page }) => {
  await open(page, '', FIB);
  await expect(canvas(page)).toHaveAttribute('data-frames', '8');
  const frames = page.getByRole('combobox', { name: 'Frames' });
  await frames.selectOption('Recursion folded');
  await expect(canvas(page)).toHaveAttribute('data-frames', '6');
  await expect(page.locator('.narrowed')).toContainText('Recursion is folded');
  await hover(page, 0.6, 3);
  await expect(tip(page)).toHaveText('main.fib ×3');
  await expect(row(page, 'main.fib')).toHaveText(/4\.00 s5\.00 s/);
  await frames.selectOption('No runtime');
  await expect(page.locator('.narrowed')).toContainText('Runtime and kernel are hidden');
  await expect(row(page, 'main.fib')).toHaveText(/5\.00 s5\.00 s/);
  await expect(rows(page)).toHaveCount(2);
  await expect(page.locator('.total')).toHaveText('6.00 s total');
  await frames.selectOption('Both folded');
  await expect(canvas(page)).toHaveAttribute('data-frames', '3');
  await expect.poll(() => parameter(page, 'frames')).toBe('both');
  await page.reload();
  await expect(page.locator('.narrowed')).toHaveText(/self of the callers\. Recursion is folded/);
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    await accessible(page, colorScheme);
  }
  await page.locator('.narrowed').getByRole('button', { name: 'Show all frames' }).click();
  await expect(canvas(page)).toHaveAttribute('data-frames', '8');
  await expect.poll(() => parameter(page, 'frames')).toBeNull();
});

test('n and N go from match to match, as far as each needs to be seen', async ({ page }) => {
  const deep = Array.from({ length: 60 }, (_, i) => `d${i}`).join(';');
  const wide = Array.from({ length: 50 }, (_, i): [string, number] => [`main;w${String(i).padStart(2, '0')}`, 1e9]);
  await open(page, '&show=flame&search=hit', [[`main;a;hit.one`, 20e9], ['main;b;tiny;hit.two', 1e7], [`main;c;${deep};hit.three`, 20e9], ...wide]);
  await expect(page.locator('.hits')).toContainText('in 3 functions');
  await expect(nav(page)).toHaveText('3 frames');
  await page.keyboard.press('n');
  await expect(nav(page)).toHaveText('1 of 3');
  await expect(tip(page)).toHaveText('hit.one');
  await expect.poll(() => parameter(page, 'zoom')).toBeNull(); // wide enough as it is
  await page.keyboard.press('n');
  await expect(nav(page)).toHaveText('2 of 3');
  await expect.poll(() => parameter(page, 'zoom')).not.toBeNull();
  await expect(tip(page)).toHaveText('hit.two');
  const outline = page.locator('.outline');
  await expect.poll(async () => (await outline.boundingBox())!.width).toBeGreaterThan(50);
  await expect(page.locator('.flame [aria-live=polite]')).toHaveText(/^hit\.two, /);
  await nav(page).getByRole('button', { name: 'Next match' }).click();
  await expect(tip(page)).toHaveText('hit.three');
  await expect(outline).toBeInViewport(); // 63 levels down
  await page.keyboard.press('n');
  await expect(nav(page)).toHaveText('1 of 3');
  await page.keyboard.press('N');
  await expect(nav(page)).toHaveText('3 of 3');
  await page.getByLabel('Search functions').fill('^main$|w0'); // one in the other
  await expect(nav(page)).toHaveText('11 frames');
  await page.getByLabel('Search functions').fill('w0');
  await expect(nav(page)).toHaveText('10 frames');
  await page.keyboard.press('Escape');
  await page.getByLabel('Search functions').fill('nothing');
  await expect(nav(page)).toHaveCount(0);
});

const GREY: Stacks = [['main.main;net/http.(*conn).serve;runtime.mallocgc', 3e9], ['main.main;net/http.(*conn).serve;main.work;runtime.memmove', 3e9], ['main.main;strings.Index', 2e9]];
for (const [theme, width] of [['light', 1400], ['dark', 1400], ['dark', 390]] as const) {
  test(`hits in grey code stand out (${theme}, ${width})`, async ({ page }) => {
    await page.emulateMedia({ colorScheme: theme, reducedMotion: 'reduce' });
    await page.setViewportSize({ width, height: 900 });
    await open(page, '&search=runtime', GREY);
    await settled(page);
    const { hit, mark, dust, text } = PALETTES[theme];
    const box = (await canvas(page).boundingBox())!;
    const seen = await canvas(page).evaluate((c: HTMLCanvasElement) => {
      const { data } = c.getContext('2d')!.getImageData(0, 0, c.width, c.height), colors: Record<string, number> = {};
      for (let i = 0; i < data.length; i += 4) {
        const key = '#' + [data[i], data[i + 1], data[i + 2]].map((v) => v.toString(16).padStart(2, '0')).join('');
        colors[key] = (colors[key] ?? 0) + 1;
      }
      return colors;
    });
    expect(seen[hit]).toBeGreaterThan(box.width * 0.4 * 8); // two hits of 75 % together
    expect(seen[mark]).toBeGreaterThan(box.width * 0.4 * 3);
    expect(contrast(hit, text)).toBeGreaterThan(4.5);
    expect(contrast(mark, dust)).toBeGreaterThan(3);
    await accessible(page, theme);
    await page.screenshot({ path: test.info().outputPath('hits.png') });
    await expect.poll(() => page.evaluate(() => document.documentElement.scrollWidth)).toBe(width);
  });
}

test('grey is what libraries and runtime have; code and measures keep their colours', () => {
  const f = buildFlame(readGraphResponse(new Uint8Array(encodeResponse(encodeLevels(GREY)))));
  for (const theme of ['light', 'dark'] as const) {
    const paint = makePaint(f, theme), grey = greyStyles(paint), of = (name: string) => grey[paint.styleOf(f, f.name.indexOf(f.names.indexOf(name)))];
    expect(['runtime.mallocgc', 'strings.Index', 'main.work'].map(of)).toEqual([true, true, false]);
    expect(greyStyles(makePaint(f, theme, 'self'))).not.toContain(true);
  }
});

test('the wide table has shares and names in full, and sorts by any column', async ({ page }) => {
  await page.setViewportSize({ width: 1400, height: 800 });
  const long = 'github.com/acme/shop/internal/pricing/engine.(*Calculator).ComputeDiscountsForCustomerGroup';
  await open(page, '&show=table', [[`main.main;${long}`, 3e9], ['main.main;net/http.(*conn).serve', 1e9]]);
  await expect(page.getByRole('columnheader')).toHaveText(['Function', 'Self ↓', 'Self %', 'Total', 'Total %']);
  await expect(rows(page).first()).toHaveText(`${long}3.00 s75.0 %3.00 s75.0 %`);
  await expect(rows(page).first().getByRole('button')).toHaveAttribute('title', long);
  await page.getByRole('columnheader', { name: 'Total %' }).getByRole('button').click();
  await expect(rows(page).first()).toHaveText('main.main00 %4.00 s100.0 %');
  await expect(page.getByRole('columnheader', { name: 'Total %' })).toHaveAttribute('aria-sort', 'descending');
  await expect.poll(() => parameter(page, 'sort')).toBe('totalshare');
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    await accessible(page, colorScheme);
  }
  await page.screenshot({ path: test.info().outputPath('table.png') });
  await page.setViewportSize({ width: 390, height: 800 });
  await expect(page.getByRole('columnheader')).toHaveText(['Function', 'Self', 'Total ↓']);
  await expect.poll(() => page.evaluate(() => document.documentElement.scrollWidth)).toBe(390);
});

for (const show of ['both', 'table']) {
  test(`a click in the table keeps the table (${show})`, async ({ page }) => {
    await open(page, `&show=${show}&sort=self`, MANY);
    await rows(page).first().hover();
    await page.mouse.wheel(0, 3000);
    const wanted = row(page, 'f120');
    await expect(wanted).toBeInViewport();
    const before = (await wanted.boundingBox())!;
    await page.mouse.click(before.x + 60, before.y + 10);
    await expect.poll(() => parameter(page, 'fn')).toBe('f120');
    await expect(wanted).toHaveClass(/selected/);
    await settled(page);
    expect(await wanted.boundingBox()).toEqual(before);
    await expect(row(page, 'f121')).toBeVisible(); // the others are still there
    expect(parameter(page, 'show') ?? 'both').toBe(show);
    await page.mouse.click(before.x + 60, before.y + 10);
    await expect(wanted).not.toHaveClass(/selected/);
    expect(await wanted.boundingBox()).toEqual(before);
  });
}

test('a function that is chosen elsewhere comes into view in the table', async ({ page }) => {
  await open(page, '&show=sandwich&fn=f300', MANY);
  await expect(row(page, 'f300')).toBeInViewport();
  await expect(row(page, 'f300')).toHaveClass(/selected/);
  await page.keyboard.press('f');
  await hover(page, 0.001, 2); // f000 is the first by name
  await expect(tip(page)).toHaveText('f000');
  await page.keyboard.press('s');
  await expect(page.locator('.middle')).toContainText('f000');
  await expect(row(page, 'f000')).toBeInViewport();
});

test('a heap opens on the space in use', () => {
  const of = (sample: string) => `memory:${sample}:bytes:space:bytes`, cpu = 'process_cpu:cpu:nanoseconds:cpu:nanoseconds';
  expect(preferredType([of('alloc_objects'), of('alloc_space'), of('inuse_objects'), of('inuse_space')])).toBe(of('inuse_space'));
  expect(preferredType([of('alloc_space'), of('inuse_space'), cpu])).toBe(cpu);
  expect(preferredType([of('alloc_space'), 'mutex:delay:nanoseconds:contentions:count'])).toBe(of('alloc_space'));
});
