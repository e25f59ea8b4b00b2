// Tests of the files that the page saves: pictures of the frames on screen, a tree, and a summary in words.
import { expect, test, type Page } from '@playwright/test';
import { readFileSync } from 'node:fs';
import { json, summary, xml } from '../src/flame/report';
import { buildFlame } from '../src/flame/model';
import { namedRows } from '../src/flame/stacks';
import { readGraphResponse } from '../src/api/wire';
import { accessible, answerWith, canvas, CHECKOUT, CPU, flame, graphOf, keepToasts, said, settled, watch } from './pages';
import { encodeDiff, encodeLevels, encodeResponse } from './profiles.mjs';

type Stacks = [string, number][];
const EVIL = 'evil.<script>alert("1")</script>&\'\u0001]]>';
const WORK: Stacks = [[`main;work;${EVIL}`, 6e9], ['main;work', 1e9], ['main;walk', 3e9]];
const RANGE = '&from=1795168800000&until=1795172400000';
const build = (wire: unknown, compared = false) => buildFlame(readGraphResponse(new Uint8Array(encodeResponse(wire as never))), compared);

let troubles: string[] = [];
test.beforeEach(({ page }) => {
  troubles = watch(page);
});
test.afterEach(() => {
  expect(troubles).toEqual([]);
});

async function open(page: Page, rest = '', stacks = WORK) {
  await answerWith(page, 'SelectMergeStacktraces', (r) => r.fulfill({ ...graphOf(stacks), headers: { 'Content-Type': 'application/proto', 'Flametree-Exact': 'exact', 'Flametree-Profiles': '240' } }));
  await page.goto(flame(RANGE + rest));
  await expect(page.locator('.total')).toContainText('total');
}
async function saved(page: Page, item: string) {
  await settled(page);
  const coming = page.waitForEvent('download');
  await page.getByRole('button', { name: 'Download' }).click();
  await page.getByRole('dialog', { name: 'Download' }).getByRole('button', { name: item }).click();
  const file = await coming;
  return { name: file.suggestedFilename(), content: readFileSync((await file.path())!) };
}

test('SVG: what is seen, with a title, and names of any kind as text', async ({ page }) => {
  await open(page, '&search=walk');
  const { name, content } = await saved(page, 'SVG'), text = content.toString();
  expect(name).toBe('checkout-CPU_time-2026-11-20T11_00_00.svg');
  const seen = await page.evaluate((svg) => {
    const doc = new DOMParser().parseFromString((globalThis as unknown as { trustedTypes: { createPolicy(n: string, o: object): { createHTML(s: string): string } } })
      .trustedTypes.createPolicy('test', { createHTML: (s: string) => s }).createHTML(svg), 'image/svg+xml');
    return {
      root: doc.documentElement.nodeName, scripts: doc.querySelectorAll('script').length, title: doc.querySelector('title')!.textContent,
      texts: [...doc.querySelectorAll('text')].map((t) => t.textContent), fills: [...new Set([...doc.querySelectorAll('rect')].map((r) => r.getAttribute('fill')))],
    };
  }, text);
  expect([seen.root, seen.scripts]).toEqual(['svg', 0]);
  expect(seen.title).toBe(`CPU time of checkout · 10.0 s total · "walk" matched 30.0 % in 1 function · ${CHECKOUT} · 20 Nov 2026, 10:00:00 – 11:00:00 UTC`);
  expect(seen.texts).toEqual(expect.arrayContaining(['total', 'main', 'work', 'walk']));
  expect(seen.texts.some((t) => t!.includes('<script>') || t!.includes('evil'))).toBe(true);
  expect(seen.fills).toContain('#dde2e8'); // what does not match steps back
  expect(text).not.toContain('<script');
  await page.screenshot({ path: test.info().outputPath('page.png') });
});

test('SVG of a zoomed frame has only what is seen, and what is cut off is hatched', async ({ page }) => {
  await open(page, '&show=flame', [...WORK, ['main;other', 2e9]]);
  const whole = (await saved(page, 'SVG')).content.toString();
  expect(whole).toContain('fill="url(#tile0)"');
  expect(whole).toContain('<pattern id="tile0"');
  await canvas(page).focus();
  for (const key of ['ArrowDown', 'ArrowDown', 'ArrowDown', 'Enter']) await page.keyboard.press(key);
  await expect(page.locator('.path .here')).toHaveText('work');
  await expect(canvas(page)).toHaveAttribute('data-drawn', /\d/);
  const zoomed = (await saved(page, 'SVG')).content.toString();
  expect(zoomed).toContain('>work</text>');
  expect(zoomed).not.toContain('>walk</text>');
});

for (const colorScheme of ['light', 'dark'] as const) {
  test(`PNG: the picture in its theme (${colorScheme})`, async ({ page }) => {
    await page.emulateMedia({ colorScheme });
    await open(page, '&show=sandwich&fn=work');
    const { name, content } = await saved(page, 'PNG');
    expect(name).toMatch(/\.png$/);
    expect(content.subarray(1, 4).toString()).toBe('PNG');
    const [width, height] = [content.readUInt32BE(16), content.readUInt32BE(20)];
    expect(width).toBeGreaterThan(500);
    expect(height).toBe(2 * 12 + 3 * 20 + 2 * (20 + 12)); // three lines, and a row of callers and one of callees
    const paper = await page.evaluate(async (bytes) => {
      const image = await createImageBitmap(new Blob([new Uint8Array(bytes)])), c = document.createElement('canvas').getContext('2d')!;
      c.drawImage(image, 0, 0);
      return [...c.getImageData(2, 2, 1, 1).data];
    }, [...content]);
    expect(paper).toEqual(colorScheme === 'light' ? [255, 255, 255, 255] : [20, 24, 30, 255]);
    await page.getByRole('button', { name: 'Download' }).click();
    await accessible(page, colorScheme);
    await page.screenshot({ path: test.info().outputPath('menu.png') });
  });
}

test('a part of a profile says so in every file', async ({ page }) => {
  await open(page, '&show=sandwich&fn=work&frames=both');
  const svg = (await saved(page, 'SVG')).content.toString();
  expect(svg).toContain('callers above, callees below: work · runtime and kernel hidden · recursion folded</text>');
  await open(page, '&show=flame');
  await canvas(page).focus();
  for (const key of ['ArrowDown', 'ArrowDown', 'Shift+F10']) await page.keyboard.press(key);
  await page.getByRole('menuitem', { name: 'Only this call path' }).click();
  await expect(page.locator('.narrowed')).toContainText('Only this call path: main');
  expect((await saved(page, 'Save summary')).content.toString()).toContain('Call path: main\n');
  expect(JSON.parse((await saved(page, 'JSON')).content.toString()).path).toEqual(['main']);
  expect((await saved(page, 'SVG')).content.toString()).toContain('only this call path: main</text>');
});

test('a picture says that its deepest levels are left out, and hatches cut stacks in their own way', async ({ page }) => {
  const deep = Array.from({ length: 800 }, (_, i) => `f${i}`).join(';');
  await answerWith(page, 'SelectMergeStacktraces', (r) => r.fulfill(graphOf([[deep, 6], ['main;other', 2], ['main;[truncated stack]', 2]])));
  await page.goto(flame());
  await expect(canvas(page)).toHaveAttribute('data-drawn', /\d/);
  const svg = (await saved(page, 'SVG')).content.toString();
  expect(svg).toContain('the deepest 101 levels are left out</text>');
  for (const tile of ['tile0', 'tile1']) expect(svg).toMatch(new RegExp(`<pattern id="${tile}"[^]*fill="url\\(#${tile}\\)"`));
});

test('JSON: the frames as a tree with what they are of', async ({ page }) => {
  await open(page);
  const tree = JSON.parse((await saved(page, 'JSON')).content.toString());
  expect(tree).toMatchObject({ query: CHECKOUT, from: '2026-11-20T10:00:00.000Z', until: '2026-11-20T11:00:00.000Z', unit: 'nanoseconds', exactness: 'exact' });
  expect(tree.flame).toMatchObject({ name: 'total', value: 10e9, self: 0 });
  const [main] = tree.flame.children;
  expect(main.children.map((c: { name: string; value: number; self: number }) => [c.name, c.value, c.self])).toEqual([['walk', 3e9, 3e9], ['work', 7e9, 1e9]]);
  expect(main.children[1].children[0]).toEqual({ name: EVIL, value: 6e9, self: 6e9, children: [] });
});

test('JSON is written for trees deeper than any stack of calls', () => {
  const deep = Array.from({ length: 20000 }, (_, i) => `f${i}`).join(';'), text = json(build(encodeLevels([[deep, 1]])), { query: 'q' });
  expect(text.match(/"name"/g)!.length).toBe(20001);
  expect([text.split('{').length, text.split('[').length]).toEqual([text.split('}').length, text.split(']').length]);
});

test('a summary is copied, and saved as a file', async ({ page, context }) => {
  await keepToasts(page);
  await context.grantPermissions(['clipboard-read', 'clipboard-write']);
  await open(page, '&search=walk');
  await page.getByRole('button', { name: 'Download' }).click();
  await page.getByRole('button', { name: 'Copy summary' }).click();
  await said(page).toContain('Summary copied');
  const text = await page.evaluate(() => navigator.clipboard.readText());
  expect(text).toContain(`CPU time of checkout
Query: ${CHECKOUT}
Range: 20 Nov 2026, 10:00:00 – 11:00:00 UTC
Total: 10.0 s
Answer: exact · 240 profiles
Link: http://127.0.0.1:`);
  expect(text).toContain('search=walk');
  expect(text).toContain(`Search: "walk" matched 30.0 % in 1 function

Top 10 functions by self
    60.0 %    6.00 s  ${EVIL}
    30.0 %    3.00 s  walk
    10.0 %    1.00 s  work

Top 10 functions by total
   100.0 %    10.0 s  main
    70.0 %    7.00 s  work
`);
  expect((await saved(page, 'Save summary')).content.toString()).toBe(text);
});

test('the summary of a comparison has the biggest moves, both sides and their times', async ({ page }) => {
  await answerWith(page, 'Diff', (r) => r.fulfill({ contentType: 'application/proto', body: encodeResponse(encodeDiff([['main;a', 5e9], ['main;b', 5e9]], [['main;a', 2e9], ['main;b', 6e9], ['main;new', 2e9]])) }));
  await page.goto(`/compare?query=${encodeURIComponent(CHECKOUT)}${RANGE}`);
  await expect(canvas(page)).toHaveAttribute('data-drawn', /\d/);
  const { name, content } = await saved(page, 'Save summary'), text = content.toString();
  expect(name).toMatch(/^change-checkout-CPU_time-.*\.txt$/);
  expect(text).toContain('Change of CPU time of checkout\nBaseline Query: ');
  expect(text).toContain('Baseline Range: 20 Nov 2026, 10:00:00 – 10:30:00 UTC\nBaseline Total: 10.0 s');
  expect(text).toContain('Comparison Range: 20 Nov 2026, 10:30:00 – 11:00:00 UTC');
  expect(text).toContain(`Biggest changes of self share
  −30.0 pp    50.0 %    20.0 %  a
  +20.0 pp       0 %    20.0 %  new
  +10.0 pp    50.0 %    60.0 %  b

Biggest changes of total share
  −30.0 pp    50.0 %    20.0 %  a
  +20.0 pp       0 %    20.0 %  new
  +10.0 pp    50.0 %    60.0 %  b
`);
  const tree = JSON.parse((await saved(page, 'JSON')).content.toString());
  expect(tree.flame.children[0].children[2]).toEqual({ name: 'new', value: 0, self: 0, comparisonValue: 2e9, comparisonSelf: 2e9, children: [] });
  expect(tree.comparison).toMatchObject({ from: '2026-11-20T10:30:00.000Z' });
  expect((await saved(page, 'SVG')).content.toString()).toContain('Change of CPU time of checkout · 10.0 s → 10.0 s');
});

test('without a picture on screen none is offered', async ({ page }) => {
  await open(page, '&show=table');
  await page.getByRole('button', { name: 'Download' }).click();
  const list = page.getByRole('dialog', { name: 'Download' });
  await expect(list.getByRole('button', { name: 'JSON' })).toBeVisible();
  await expect(list.getByRole('button', { name: 'PNG' })).toHaveCount(0);
});

test('text of XML holds only what XML may hold', () => {
  expect(xml('a<b>&"\'')).toBe('a&#60;b&#62;&#38;&#34;&#39;');
  expect(xml('x\u0000\u0008\u000b\ud800y\ufffe\t😀')).toBe('x\ufffd\ufffd\ufffd\ufffdy\ufffd\t😀');
});

test('a summary says what lies in frames that were not sent', () => {
  const f = build(encodeLevels([['main;a', 6], ['main;other', 4]])), text = summary(f, namedRows(f), CPU, 'T', [], '');
  expect(text).toContain('Cut: 40.0 % lies in frames that were not sent');
  expect(text).not.toMatch(/ns {2}other/);
});
