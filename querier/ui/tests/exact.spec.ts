// How exact an answer is: what the page says of frames that were left out, and the sums of all functions beside them.
import { expect, test, type Page } from '@playwright/test';
import { encodeDiff, encodeLevels, encodeResponse } from './profiles.mjs';
import { leavesOut, readFrames } from '../src/api/client';
import { readGraphResponse } from '../src/api/wire';
import { accessible, canvas, CHECKOUT, click, flame, hover, parameter, settled, watch } from './pages';

type Stacks = [string, number][];
/** 60 % of the time is shown; `main.hidden` is in what was left out. */
const SHOWN: Stacks = [['main.main;main.work', 6e8], ['main.main;other', 4e8]];
const CUT_HEADERS = { 'Flametree-Exact': 'totals', 'Flametree-Frames': 'sent=2; all=215003; share=0.6', 'Flametree-Profiles': '12' };
const ROWS = [
  { name: 'main.main', self: '0', total: '1000000000' }, { name: 'main.work', self: '700000000', total: '700000000' },
  { name: 'main.hidden', self: '300000000', total: '300000000' },
];
const DIFF_ROWS = [
  { name: 'main.main', leftTotal: '1000', rightTotal: '1000' }, { name: 'main.work', leftSelf: '900', leftTotal: '900', rightSelf: '400', rightTotal: '400' },
  { name: 'main.hidden', leftSelf: '100', leftTotal: '100', rightSelf: '600', rightTotal: '600' },
];

interface Asked { functions: Record<string, unknown>[]; nodes: string[] }

/** Answers flame graphs with these headers, and tables of functions with `table`. */
async function serve(page: Page, method: string, body: Buffer, headers: Record<string, string>, table: object | null): Promise<Asked> {
  const asked: Asked = { functions: [], nodes: [] };
  await page.route(`**/${method}`, async (r) => {
    const request = r.request();
    expect(await request.headerValue('flametree-names')).toBe('readable');
    if (await request.headerValue('content-type') === 'application/json') {
      asked.functions.push(request.postDataJSON());
      return table ? r.fulfill({ json: { functions: table } }) : r.fulfill({ status: 503, json: { code: 'unavailable', message: 'no table today' } });
    }
    return r.fulfill({ contentType: 'application/proto', body, headers });
  });
  return asked;
}
const graph = (stacks: Stacks) => encodeResponse(encodeLevels(stacks));
const row = (page: Page, name: string) => page.getByRole('row').filter({ has: page.getByRole('button', { name, exact: true }) });

test('the header that counts frames is read, and anything else is no statement', () => {
  expect(readFrames('sent=16384; all=215003; share=0.5436')).toEqual({ sent: 16384, all: 215003, share: 0.5436 });
  for (const text of [null, '', 'sent=1', 'sent=1; all=2; share=x']) expect(readFrames(text)).toBeNull();
  const of = (text: string) => leavesOut({ profiles: null, exact: null, tookMs: null, missing: null, since: null, cut: null, frames: readFrames(text) });
  expect([of('sent=2; all=3; share=1'), of('sent=3; all=3; share=1'), of('')]).toEqual([true, false, false]);
});

test('readable names come with the graph, and unknown fields are stepped over', () => {
  const { names, levels } = encodeLevels([['_Z4betav', 1]]), inner = encodeResponse({ names, levels });
  // Response.flamegraph { ..., readable_names 100 { index 1 = 1, text 2 = "beta()" } }: added at the end of the graph.
  const readable = Buffer.from([0xa2, 0x06, 10, 0x08, 1, 0x12, 6, ...Buffer.from('beta()')]);
  const bytes = Buffer.concat([Buffer.from([0x0a, inner.length - 2 + readable.length]), inner.subarray(2), readable]);
  expect(readGraphResponse(bytes)).toMatchObject({ names: ['total', '_Z4betav'], readable: [[1, 'beta()']] });
  expect(readGraphResponse(inner).readable).toEqual([]);
});

test('frames left out: the pill says how much is shown, the table has all sums, one click loads all', async ({ page }) => {
  const troubles = watch(page), asked = await serve(page, 'SelectMergeStacktraces', graph(SHOWN), CUT_HEADERS, { functions: ROWS });
  await page.goto(flame());
  await expect(page.locator('.pill')).toHaveText('totals exact · frames show 60.0 % of the time · 12 profiles');
  await expect(page.locator('.pill i')).toHaveClass('plain');
  await expect(page.locator('.path .size')).toContainText(/2 of 215\s003 frames/);
  await expect(row(page, 'main.hidden')).toContainText('300 ms');
  await expect(row(page, 'main.work')).toContainText('700 ms');
  await expect(page.locator('.note')).toHaveCount(0);
  expect(asked.functions[0]).not.toHaveProperty('maxNodes'); // no limit
  expect(asked.functions[0]).toMatchObject({
    format: 'PROFILE_FORMAT_FUNCTIONS', labelSelector: '{service_name="checkout"}',
  });
  // The search covers functions that the picture leaves out, and says that its own sum is of the shown frames.
  await page.getByRole('textbox', { name: /Search functions/ }).fill('hidden');
  await expect(page.locator('.trow')).toHaveCount(1);
  await expect(page.locator('.hits')).toContainText('at least');
  await page.getByRole('button', { name: 'Clear the search' }).click();
  // A function that is not shown: its exact sum, and the way to its callers.
  await row(page, 'main.hidden').click();
  await expect(page.locator('.hits')).toContainText('30.0 % · 300 ms');
  await page.getByRole('button', { name: 'Sandwich' }).click();
  await expect(page.getByText('This function is not among the shown frames')).toBeVisible();
  await page.locator('.choose').getByRole('button', { name: /Load all 215\s003 frames/ }).click();
  await expect.poll(() => parameter(page, 'maxNodes')).toBe('215003');
  expect(troubles).toEqual([]);
});

test('all frames are loaded from the pill, and then nothing is said but exact', async ({ page }) => {
  await page.route('**/SelectMergeStacktraces', async (r) => {
    const all = r.request().postDataBuffer()!.includes(Buffer.from([0x28, 0xdb, 0x8f, 0x0d])); // max_nodes 5 = 215003
    await r.fulfill(await r.request().headerValue('content-type') === 'application/json' ? { json: { functions: { functions: ROWS } } } : {
      contentType: 'application/proto', body: graph(all ? [['main.main;main.work', 7e8], ['main.main;main.hidden', 3e8]] : SHOWN),
      headers: all ? { 'Flametree-Exact': 'exact', 'Flametree-Frames': 'sent=3; all=3; share=1' } : CUT_HEADERS,
    });
  });
  await page.goto(flame());
  await page.locator('.status').getByRole('button', { name: /Load all/ }).click();
  await expect(page.locator('.pill')).toHaveText('exact');
  await expect(page.locator('.pill i')).toHaveClass('good');
  await expect(page.locator('.status').getByRole('button', { name: /Load/ })).toHaveCount(0);
  await expect(row(page, 'main.hidden')).toContainText('300 ms');
  await page.reload();
  await expect(page.locator('.pill')).toHaveText('exact');
});

test('more frames than can be asked for: as many as can', async ({ page }) => {
  await serve(page, 'SelectMergeStacktraces', graph(SHOWN), { ...CUT_HEADERS, 'Flametree-Frames': 'sent=16384; all=3000000; share=0.999999' }, { functions: ROWS });
  await page.goto(flame());
  await expect(page.locator('.pill')).toContainText('frames show 99.9 % of the time');
  await page.locator('.status').getByRole('button', { name: /^Load 1\s048\s576 frames$/ }).click();
  await expect.poll(() => parameter(page, 'maxNodes')).toBe('1048576');
});

test('the table says while the sums of all frames load, and if they do not', async ({ page }) => {
  const asked = await serve(page, 'SelectMergeStacktraces', graph(SHOWN), CUT_HEADERS, null);
  let release = () => {};
  const held = new Promise<void>((resolve) => (release = resolve));
  await page.route('**/SelectMergeStacktraces', async (r) => {
    if (await r.request().headerValue('content-type') === 'application/json') await held;
    await r.fallback();
  });
  await page.goto(flame());
  await expect(page.locator('.note')).toHaveText(/of the shown frames.*are loading/);
  await expect(row(page, 'main.work')).toContainText('600 ms');
  release();
  await expect(page.locator('.note')).toHaveText('These sums are of the shown frames only. Those of all frames did not load: no table today');
  await expect(row(page, 'main.work')).toContainText('600 ms');
  expect(asked.functions.length).toBeGreaterThan(0);
});

test('nothing was left out: the rows are counted here, and no table is asked for', async ({ page }) => {
  const headers = { 'Flametree-Exact': 'exact', 'Flametree-Frames': 'sent=3; all=3; share=1' };
  const asked = await serve(page, 'SelectMergeStacktraces', graph([['a;b', 1e9], ['a;c', 1e9]]), headers, { functions: ROWS });
  await page.goto(flame());
  await expect(page.locator('.trow')).toHaveCount(3);
  await settled(page);
  await expect(page.locator('.pill')).toHaveText('exact');
  expect(asked.functions).toEqual([]);
});

test('a comparison that leaves frames out has the sums of both sides', async ({ page }) => {
  const body = encodeResponse(encodeDiff([['main.main;main.work', 900], ['main.main;other', 100]], [['main.main;main.work', 400], ['main.main;other', 600]]));
  const asked = await serve(page, 'Diff', body, CUT_HEADERS, { functions: DIFF_ROWS, leftTotal: '1000', rightTotal: '1000' });
  await page.goto(`/compare?query=${encodeURIComponent(CHECKOUT)}&norm=share`);
  await expect(page.locator('.pill')).toContainText('totals exact · frames show 60.0 %');
  await expect(row(page, 'main.hidden')).toContainText('+50.0 pp');
  await expect(row(page, 'main.hidden')).toContainText('60.0 %');
  expect(asked.functions[0]).toMatchObject({ left: { format: 'PROFILE_FORMAT_FUNCTIONS' }, right: { format: 'PROFILE_FORMAT_FUNCTIONS' } });
});

test('stacks cut when pushed are told, and their frames explain themselves', async ({ page }) => {
  const headers = { 'Flametree-Exact': 'exact', 'Flametree-Frames': 'sent=4; all=4; share=1', 'Flametree-Cut': '250000000' };
  await serve(page, 'SelectMergeStacktraces', graph([['a;[truncated stack]', 2e8], ['a;b', 7.5e8], ['[too many stacks]', 0.5e8]]), headers, null);
  await page.goto(flame('&show=flame'));
  await expect(page.locator('.pill')).toHaveText('exact · 250 ms in stacks cut when pushed');
  await expect(page.locator('.pill i')).toHaveClass('plain');
  await expect(page.locator('.pill')).toHaveAttribute('title', /too deep, or too many/);
  await hover(page, 0.15, 2);
  await expect(page.getByRole('tooltip')).toContainText('max_profile_stacktrace_depth');
  await hover(page, 0.02, 1);
  await expect(page.getByRole('tooltip')).toContainText('max_stacks_per_service_hour');
  await click(page, 0.15, 2); // it is a place like any other: nothing more can be asked for
  await expect.poll(() => parameter(page, 'zoom')).toMatch(/^\w{7}$/);
});

for (const theme of ['light', 'dark'] as const) {
  test(`frames left out: accessible and without overflow, ${theme}`, async ({ page }) => {
    await page.emulateMedia({ colorScheme: theme, reducedMotion: 'reduce' });
    await serve(page, 'SelectMergeStacktraces', graph(SHOWN), { ...CUT_HEADERS, 'Flametree-Cut': '1000000' }, null);
    for (const width of [1400, 390]) {
      await page.setViewportSize({ width, height: 800 });
      await page.goto(flame('&fn=main.hidden&show=sandwich'));
      await expect(page.getByRole('button', { name: /Load all/ }).first()).toBeVisible();
      await expect(page.locator('.note')).toContainText('did not load');
      await expect.poll(() => page.evaluate(() => document.documentElement.scrollWidth)).toBe(width);
      await accessible(page, `${theme}, ${width}`);
    }
    await expect(canvas(page)).toHaveCount(0);
  });
}
