// What can be done with a profile, with invented answers: timeline, search, table, sandwich, orders, colours, menu, keys,
// links. Every test also fails on any console error, violation of the policy or request to another host.
import { expect, test, type Page } from '@playwright/test';
import { encodeDiff, encodeResponse } from './profiles.mjs';
import { accessible, answerWith, canvas, CHECKOUT, click, CPU, drag, flame, graphOf, hover, keepToasts, pair, parameter, said, settled, spot, watch } from './pages';

let troubles: string[] = [];
test.beforeEach(({ page }) => {
  troubles = watch(page);
});
test.afterEach(() => {
  expect(troubles).toEqual([]);
});

/** main 10 s: 2 s of its own, alloc 1 s below it; work 5 s of which alloc 2 s; walk 3 s of which 2 s in an inner walk. */
const WORK: [string, number][] = [['main', 1e9], ['main;work', 3e9], ['main;work;alloc', 2e9], ['main;walk', 1e9], ['main;walk;walk', 2e9], ['main;alloc', 1e9]];

async function open(page: Page, rest = '', stacks = WORK) {
  await answerWith(page, 'SelectMergeStacktraces', (r) => r.fulfill(graphOf(stacks)));
  await page.goto(flame(rest));
  await expect(page.locator('.total')).toContainText('total');
}
const table = (page: Page) => page.getByRole('table', { name: 'Functions' });
const rows = (page: Page) => table(page).locator('.trow');
const names = async (page: Page) => (await rows(page).locator('.fn').allTextContents()).map((t) => t.trim());
const head = (page: Page, name: string) => table(page).getByRole('columnheader', { name });
const half = (page: Page, which: 'callers' | 'callees') => page.locator(`[data-half=${which}] canvas`);

test('the timeline tells the value at the pointer and asks for at most 400 buckets', async ({ page }) => {
  const asked = page.waitForRequest('**/SelectSeries');
  await open(page);
  const body = (await asked).postDataJSON() as { start: number; end: number; step: number; profileTypeID: string; labelSelector: string };
  expect([body.profileTypeID, body.labelSelector]).toEqual([CPU, '{service_name="checkout"}']);
  expect((body.end - body.start) / (body.step * 1e3)).toBeLessThanOrEqual(400); // the first is left out
  const plot = page.locator('.u-over');
  await settled(page);
  await plot.hover();
  await expect(page.locator('.reading')).toContainText(/\d\d:\d\d:\d\d UTC/);
  await expect(page.locator('.reading')).toContainText(/\d\.\d\d cores?/);
  await page.mouse.move(5, 5);
  await expect(page.locator('.reading')).toHaveCount(0);
});

test('dragging the timeline chooses exactly that range, and Back undoes it', async ({ page }) => {
  await open(page, '&from=1795168800000&until=1795172400000');
  await drag(page, 0.25, 0.75);
  await expect.poll(() => parameter(page, 'from')).not.toBe('1795168800000');
  const [from, until] = [Number(parameter(page, 'from')), Number(parameter(page, 'until'))];
  expect(Math.abs(from - 1795169700000)).toBeLessThan(10e3); // to a few pixels
  expect(Math.abs(until - 1795171500000)).toBeLessThan(10e3);
  await expect(page.getByRole('button', { name: /20 Nov 2026, 10:1\d:\d\d – 10:[45]\d:\d\d/ })).toBeVisible();
  await page.goBack();
  await expect.poll(() => parameter(page, 'from')).toBe('1795168800000');
});

test('the table counts recursion once, sorts by its heads and says so', async ({ page }) => {
  await open(page);
  await expect(rows(page)).toHaveCount(4);
  await expect.poll(() => names(page)).toEqual(['alloc', 'walk', 'work', 'main']); // 3, 3, 3, 1 s of their own
  await expect(rows(page).nth(1)).toContainText('3.00 s3.00 s');
  await expect(head(page, 'Self')).toHaveAttribute('aria-sort', 'descending');
  await head(page, 'Total').getByRole('button').click();
  await expect.poll(() => names(page)).toEqual(['main', 'work', 'alloc', 'walk']);
  await expect(head(page, 'Total')).toHaveAttribute('aria-sort', 'descending');
  await expect(head(page, 'Self')).toHaveAttribute('aria-sort', 'none');
  await head(page, 'Total').getByRole('button').click();
  await expect(head(page, 'Total')).toHaveAttribute('aria-sort', 'ascending');
  await expect.poll(async () => (await names(page))[3]).toBe('main');
  await head(page, 'Function').getByRole('button').click();
  await expect.poll(() => names(page)).toEqual(['alloc', 'main', 'walk', 'work']);
  await expect.poll(() => parameter(page, 'sort')).toBe('name');
  await page.reload();
  await expect(head(page, 'Function')).toHaveAttribute('aria-sort', 'ascending');
});

test('of a long table only the visible rows exist, and keys walk all of them', async ({ page }) => {
  const many = Array.from({ length: 5000 }, (_, i): [string, number] => [`main;f${String(i).padStart(4, '0')}`, 1e6 * (5000 - i)]);
  await open(page, '', many);
  await expect(rows(page).first()).toContainText('f0000');
  await expect.poll(() => rows(page).count()).toBeLessThan(80);
  await expect(table(page)).toHaveAttribute('aria-rowcount', '5002');
  await rows(page).first().getByRole('button').focus();
  await page.keyboard.press('ArrowDown');
  await expect(rows(page).getByRole('button', { name: 'f0001' })).toBeFocused();
  await page.keyboard.press('End');
  await expect(rows(page).getByRole('button', { name: 'main' })).toBeFocused();
  await expect(rows(page).last()).toHaveAttribute('aria-rowindex', '5002');
  await page.keyboard.press('Home');
  await expect(rows(page).getByRole('button', { name: 'f0000' })).toBeFocused();
});

test('a search tells the share it matched, filters the table, and lives in the address', async ({ page }) => {
  await open(page);
  const matched = page.locator('.hits');
  await page.keyboard.press('/');
  await page.keyboard.type('walk');
  await expect(matched).toHaveText(/matched 30\.0 % · 3\.00 s in 1 function/); // the inner walk lies in the outer
  await expect.poll(() => names(page)).toEqual(['walk']);
  await expect.poll(() => parameter(page, 'search')).toBe('walk');
  await page.reload();
  await expect(matched).toContainText('30.0 %');
  await page.getByLabel('Search functions').fill('^a|work');
  await expect(matched).toContainText('60.0 %'); // work 5 s, and the alloc that is not in work 1 s
  await page.getByLabel('Search functions').fill('w(');
  await expect(matched).toContainText('0 %');
  await expect(table(page)).toContainText('No matching functions');
  await page.keyboard.press('Escape');
  await expect.poll(() => parameter(page, 'search')).toBeNull();
  await expect(rows(page)).toHaveCount(4);
});

test('a row of the table highlights its function', async ({ page }) => {
  await open(page);
  await rows(page).filter({ hasText: 'alloc' }).click();
  await expect.poll(() => parameter(page, 'fn')).toBe('alloc');
  await expect(page.locator('.hits')).toHaveText(/alloc 30\.0 % · 3\.00 s/);
  await page.goBack();
  await expect(page.locator('.hits')).toHaveText('');
});

test('a sandwich: callers above, callees below, both as wide as the function', async ({ page }) => {
  await open(page, '&show=sandwich');
  await expect(page.locator('.choose')).toContainText('Choose a function');
  await rows(page).filter({ hasText: 'work' }).click();
  const middle = page.locator('.middle');
  await expect(middle).toHaveText(/worktotal 5\.00 s 50\.0 %self 3\.00 s/);
  await expect(half(page, 'callees')).toHaveAttribute('data-drawn', '2');
  await expect(half(page, 'callers')).toHaveAttribute('data-drawn', '2');
  const tip = page.getByRole('tooltip').locator('.function');
  await settled(page);
  const below = (await half(page, 'callees').boundingBox())!, above = (await half(page, 'callers').boundingBox())!;
  await page.mouse.move(below.x + below.width * 0.2, below.y + 10);
  await expect(tip).toHaveText('alloc');
  await expect(page.getByRole('tooltip')).toContainText('20.0 %'); // of the whole profile
  await page.mouse.move(above.x + above.width * 0.9, above.y + above.height - 10);
  await expect(tip).toHaveText('main');
  await page.keyboard.press('s');
  await expect(middle).toContainText('main');
  await expect(page.locator('[data-half=callers]')).toContainText('No callers');
  await page.goBack();
  await expect(middle).toContainText('work');
});

test('half of a sandwich can be zoomed, and the link holds it', async ({ page }) => {
  await open(page, '&show=sandwich&fn=alloc', [['main;a;alloc', 3e9], ['main;b;alloc', 1e9], ['b;alloc;leaf', 1e9]]);
  const up = half(page, 'callers');
  await expect(up).toHaveAttribute('data-drawn', /\d/);
  await settled(page);
  const box = (await up.boundingBox())!;
  await page.mouse.click(box.x + 30, box.y + box.height - 10);
  await expect.poll(() => parameter(page, 'zoom')).toMatch(/^u[0-9a-z]{7}$/);
  await page.reload();
  await expect(page.locator('.middle').getByRole('button', { name: 'Show all' })).toBeVisible();
  await page.keyboard.press('Escape');
  await expect.poll(() => parameter(page, 'zoom')).toBeNull();
});

test('the heaviest frames go to the left', async ({ page }) => {
  await open(page);
  const tip = page.getByRole('tooltip').locator('.function');
  await hover(page, 0.98, 2);
  await expect(tip).toHaveText('work'); // by name it is the last
  await page.getByLabel('Order').selectOption('Heaviest left');
  await expect.poll(() => parameter(page, 'order')).toBe('heavy');
  await hover(page, 0.02, 2);
  await expect(tip).toHaveText('work');
});

test('colours tell the package, the function or the self share', async ({ page }) => {
  await open(page, '&show=flame', [['net/http.a;main.b', 1e9], ['runtime.c', 1e9]]);
  await expect(page.getByRole('list', { name: 'Colours' })).toContainText('runtime');
  await page.getByRole('combobox', { name: 'Colour' }).selectOption('Self share');
  await expect(page.getByRole('img', { name: 'Colours from self 0 % to 10 %' })).toBeVisible();
  await page.getByRole('combobox', { name: 'Colour' }).selectOption('Function');
  await expect(page.locator('.legend')).toHaveCount(0);
  await expect.poll(() => parameter(page, 'color')).toBe('function');
});

test('the menu of a frame: zoom, sandwich, highlight, search, copy', async ({ page, context }) => {
  await keepToasts(page);
  await context.grantPermissions(['clipboard-read', 'clipboard-write']);
  await open(page);
  const menu = page.getByRole('menu'), item = (name: string) => menu.getByRole('menuitem', { name });
  await click(page, 0.9, 2, 'right');
  await expect(item('Zoom in')).toBeFocused();
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowDown');
  await expect(item('Callers and callees')).toBeFocused();
  await page.keyboard.press('Escape');
  await expect(menu).toHaveCount(0);
  await click(page, 0.9, 2, 'right');
  await item('Copy name').click();
  await said(page).toContain('Name copied');
  await expect.poll(() => page.evaluate(() => navigator.clipboard.readText())).toBe('work');
  await click(page, 0.9, 2, 'right');
  await item('Copy the stack').click();
  await expect.poll(() => page.evaluate(() => navigator.clipboard.readText())).toBe('main\nwork');
  await click(page, 0.9, 2, 'right');
  await item('Search for it').click();
  await expect.poll(() => parameter(page, 'search')).toBe('^work$');
  await rows(page).first().click({ button: 'right' });
  await item('Highlight').click();
  await expect.poll(() => parameter(page, 'fn')).toBe('work');
  await click(page, 0.9, 2, 'right');
  await item('Callers and callees').click();
  await expect.poll(() => [parameter(page, 'show'), parameter(page, 'fn')]).toEqual(['sandwich', 'work']);
});

test('"only this call path" asks the server for them, and the link holds it', async ({ page }) => {
  const asked: string[] = [];
  await answerWith(page, 'SelectMergeStacktraces', (r) => {
    const sent = r.request().postDataBuffer()!.toString('latin1');
    asked.push(sent);
    return r.fulfill(graphOf(sent.includes('work') ? [['main;work', 3e9], ['main;work;alloc', 2e9]] : WORK));
  });
  await page.goto(flame());
  await expect(canvas(page)).toHaveAttribute('data-frames', '7');
  await click(page, 0.9, 2, 'right');
  await page.getByRole('menuitem', { name: 'Only this call path' }).click();
  await expect(page.locator('.narrowed')).toContainText('Only this call path: work');
  await expect(page.locator('.total')).toHaveText('5.00 s total');
  const link = page.url();
  await page.goto('about:blank');
  await page.goto(link);
  await expect(page.locator('.total')).toHaveText('5.00 s total');
  expect(asked.filter((a) => a.includes('work')).length).toBe(2);
  await page.getByRole('button', { name: 'Show all stacks' }).click();
  await expect(page.locator('.total')).toHaveText('10.0 s total');
});

test('what was cut off is hatched, explained, and asked for by a click', async ({ page }) => {
  await answerWith(page, 'SelectMergeStacktraces', (r) => {
    const more = r.request().postDataBuffer()!.toString('latin1').includes('work');
    return r.fulfill(graphOf(more ? [['main;work;a', 2e9], ['main;work;b', 3e9]] : [['main;work;a', 2e9], ['main;work;other', 3e9]]));
  });
  await page.goto(flame());
  await expect(canvas(page)).toHaveAttribute('data-drawn', '5');
  await hover(page, 0.8, 3);
  await expect(page.getByRole('tooltip')).toContainText('left out to keep to 16\u202f384 frames. A click asks for it.');
  await click(page, 0.8, 3);
  await expect(page.locator('.narrowed')).toBeVisible();
  await expect(page.locator('.path .here')).toHaveText('work');
  await hover(page, 0.8, 3);
  await expect(page.getByRole('tooltip').locator('.function')).toHaveText('b');
});

test('where even that was cut off more frames are asked for', async ({ page }) => {
  await open(page, '', [['main', 2e9], ['other', 3e9]]);
  await expect(canvas(page)).toHaveAttribute('data-drawn', '3');
  const asked = page.waitForRequest('**/SelectMergeStacktraces');
  await click(page, 0.9, 1);
  expect((await asked).postDataBuffer()!.toString('hex')).toMatch(/28808004$/); // max_nodes 65536
  await expect.poll(() => parameter(page, 'maxNodes')).toBe('65536');
});

test('a zoomed graph is pulled and zoomed by the wheel, and comes back', async ({ page }) => {
  await open(page, '&show=flame');
  const tip = page.getByRole('tooltip').locator('.function');
  await hover(page, 0.15, 2);
  await expect(tip).toHaveText('alloc'); // 10 to 20 %
  await page.keyboard.down('Control');
  await page.mouse.wheel(0, -800); // about the pointer
  await page.keyboard.up('Control');
  await hover(page, 0.3, 2);
  await expect(tip).toHaveText('alloc');
  const from = await spot(page, 0.3, 1);
  await page.mouse.move(from.x, from.y);
  await page.mouse.down();
  await page.mouse.move(from.x - 300, from.y, { steps: 4 });
  await page.mouse.move(from.x - 700, from.y, { steps: 4 });
  await page.mouse.up();
  await hover(page, 0.3, 2);
  await expect(tip).toHaveText('walk');
  await expect.poll(() => parameter(page, 'zoom')).toBeNull();
  await page.mouse.move(from.x, from.y);
  await page.mouse.down();
  await page.mouse.move(from.x + 10, from.y, { steps: 4 });
  const over = await spot(page, 0.3, 2);
  await canvas(page).evaluate((c, { x, y }) => { // the next move follows on the heels of the end
    for (const type of ['pointerup', 'pointermove']) c.dispatchEvent(new PointerEvent(type, { clientX: x, clientY: y, bubbles: true }));
  }, over);
  await expect(tip).toHaveText('walk');
  await page.mouse.up();
  await canvas(page).focus();
  await page.keyboard.press('Escape');
  await hover(page, 0.15, 2);
  await expect(tip).toHaveText('alloc');
});

test('newer values leave the place in the table, the picture pulled by hand and what the pointer is on', async ({ page }) => {
  let asked = 0;
  await answerWith(page, 'SelectMergeStacktraces', (r) => {
    asked++;
    const many = Array.from({ length: 500 }, (_, i): [string, number] => [`main;f${String(i).padStart(4, '0')}`, 1e6 * (501 - i)]);
    const more = Array.from({ length: asked }, (_, i): [string, number] => [`main;e${i}`, 1e5]); // numbers of names and places change
    return r.fulfill(graphOf([...many, ...more]));
  });
  await page.goto(flame('&from=1795168800000&until=1795172400000'));
  const refreshed = async () => {
    const before = asked;
    await page.keyboard.press('r');
    await expect(canvas(page)).toHaveAttribute('data-drawn', String(503 + before));
    await settled(page);
  };
  await rows(page).first().getByRole('button').focus();
  await page.keyboard.press('End');
  for (const k of ['ArrowUp', 'ArrowUp']) await page.keyboard.press(k);
  const low = rows(page).getByRole('button', { name: 'f0499' });
  await expect(low).toBeFocused();
  await refreshed();
  await expect(low).toBeFocused();
  await expect(low).toBeInViewport();

  const tip = page.getByRole('tooltip').locator('.function');
  await hover(page, 0.5, 2);
  const name = (await tip.textContent())!;
  await page.keyboard.down('Control');
  await page.mouse.wheel(0, -4000);
  await page.keyboard.up('Control');
  await hover(page, 0.501, 2);
  await expect(tip).toHaveText(name);
  await refreshed();
  await expect(tip).toHaveText(name);
  await hover(page, 0.45, 2); // where another function was before the wheel
  await expect(tip).toHaveText(name);

  await page.locator('.u-over').hover();
  const told = page.locator('.reading .dim'), at = (await told.textContent())!;
  await refreshed();
  await expect(told).toHaveText(at);
});

test('what arrives while a range is drawn out on the timeline does not undo it', async ({ page }) => {
  let asked = 0;
  await page.route('**/SelectSeries', (r) => {
    asked++;
    return r.continue();
  });
  await open(page, '&from=1795168800000&until=1795172400000');
  await settled(page);
  const box = (await page.locator('.u-over').boundingBox())!, y = box.y + box.height / 2, to = (share: number) => page.mouse.move(box.x + box.width * share, y, { steps: 3 });
  await to(0.25);
  await page.mouse.down();
  await to(0.5);
  await page.keyboard.press('r');
  await expect.poll(() => asked).toBe(2);
  await settled(page);
  await to(0.75);
  await page.mouse.up();
  await expect.poll(() => parameter(page, 'from')).not.toBe('1795168800000');
  const [from, until] = [Number(parameter(page, 'from')), Number(parameter(page, 'until'))];
  expect(Math.abs(from - 1795169700000)).toBeLessThan(10e3); // to a few pixels
  expect(Math.abs(until - 1795171500000)).toBeLessThan(10e3);
});

test('single keys: views, sandwich, ranges, pages, and the list of them', async ({ page }) => {
  await open(page);
  const key = (k: string) => page.keyboard.press(k);
  await key('t');
  await expect(canvas(page)).toHaveCount(0);
  await key('f');
  await expect(table(page)).toHaveCount(0);
  await key('b');
  await expect(table(page)).toBeVisible();
  await expect.poll(() => parameter(page, 'show')).toBeNull();
  await canvas(page).focus();
  for (const k of ['ArrowDown', 'ArrowDown', 'ArrowDown']) await key(k);
  await expect(page.locator('.flame [aria-live=polite]')).toHaveText(/^work/);
  await key('s');
  await expect.poll(() => [parameter(page, 'show'), parameter(page, 'fn')]).toEqual(['sandwich', 'work']);
  await key('-');
  await expect.poll(() => parameter(page, 'from')).toBe('now-2h');
  await key('+');
  await expect.poll(() => parameter(page, 'from')).toBeNull();
  await key('[');
  await expect.poll(() => parameter(page, 'until')).toMatch(/^\d{13}$/);
  const until = Number(parameter(page, 'until'));
  await key(']');
  await expect.poll(() => Number(parameter(page, 'until'))).toBeGreaterThan(until);
  await key('?');
  const list = page.getByRole('dialog', { name: 'Keys' });
  await expect(list).toContainText('Sandwich: callers and callees of the function');
  await accessible(page, 'list of keys');
  await list.getByLabel('Single keys work').uncheck();
  await key('Escape');
  await expect(list).toHaveCount(0);
  await key('t');
  await expect(page.locator('.middle')).toBeVisible(); // nothing happened
  await page.getByRole('button', { name: 'Keys', exact: true }).click();
  await list.getByLabel('Single keys work').check();
  await list.getByRole('button', { name: 'Close' }).click();
  await pair(page, ['g', 's'], () => expect(page).toHaveTitle('Services – Flametree', { timeout: 5000 }));
  await pair(page, ['g', 'f'], () => expect(canvas(page)).toBeVisible({ timeout: 5000 }));
  await page.getByLabel('Search functions').focus();
  await page.keyboard.type('t?');
  await expect(page.getByLabel('Search functions')).toHaveValue('t?');
  await expect(table(page)).toBeVisible();
});

test('a link is copied as the range moves, or with the times on screen', async ({ page, context }) => {
  await keepToasts(page);
  await context.grantPermissions(['clipboard-read', 'clipboard-write']);
  await open(page, '&search=walk&from=now-6h');
  const copied = async () => new URL(await page.evaluate(() => navigator.clipboard.readText())).searchParams;
  await page.getByRole('button', { name: 'Copy link' }).click();
  await page.getByRole('button', { name: /Relative time link/ }).click();
  await said(page).toContain('Link copied');
  expect([(await copied()).get('from'), (await copied()).get('search')]).toEqual(['now-6h', 'walk']);
  await page.getByRole('button', { name: 'Copy link' }).click();
  await page.getByRole('button', { name: /Absolute time link/ }).click();
  await expect.poll(async () => (await copied()).get('from')).toMatch(/^\d{13}$/);
  const q = await copied();
  expect(Number(q.get('until')) - Number(q.get('from'))).toBe(6 * 3600e3);
});

test('a filter is added from the labels that there are', async ({ page }) => {
  await open(page);
  await page.getByRole('button', { name: 'Filter', exact: true }).click();
  await page.getByLabel('Label').fill('region');
  await expect(page.locator('#filter-values option')).toHaveCount(2);
  await page.getByLabel('Comparison').selectOption('is not');
  await page.getByLabel('Value').fill('eu');
  await accessible(page, 'filter');
  await page.getByRole('button', { name: 'Add' }).click();
  await expect(page.locator('.chip')).toHaveText('region != eu');
  await expect.poll(() => parameter(page, 'query')).toBe(`${CPU}{service_name="checkout", region!="eu"}`);
});

test('all times can be in UTC', async ({ browser, baseURL }) => {
  const context = await browser.newContext({ timezoneId: 'America/New_York', locale: 'en-GB', baseURL }), page = await context.newPage();
  const seen = watch(page);
  await open(page, '&from=1795168800000&until=1795172400000');
  await page.getByRole('button', { name: '20 Nov 2026, 05:00:00 – 06:00:00' }).click();
  await page.getByLabel('All times in UTC').check();
  await expect(page.getByLabel('From')).toHaveValue(/^2026-11-20 10:00/);
  await expect(page.getByRole('button', { name: '20 Nov 2026, 10:00:00 – 11:00:00' })).toBeVisible();
  await expect.poll(() => parameter(page, 'tz')).toBe('UTC');
  expect(seen).toEqual([]);
  await context.close();
});

test('links in traces are read: old names, spans, seconds', async ({ page }) => {
  const asked = page.waitForRequest('**/SelectMergeStacktraces');
  await page.goto(`/?query=${encodeURIComponent('checkout.cpu{profile_id="00c0ffee00c0ffee"}')}&from=1795168800&until=1795172400`);
  await expect(canvas(page)).toBeVisible();
  const sent = (await asked).postDataBuffer()!.toString('latin1');
  expect(sent).toContain(CPU);
  expect(sent).toContain('{service_name="checkout"}');
  expect(sent).toContain('Z\x1000c0ffee00c0ffee'); // span_selector
  await expect(page.locator('.chip')).toHaveText('span = 00c0ffee00c0ffee');
  await expect(page.getByRole('button', { name: '20 Nov 2026, 10:00:00 – 11:00:00' })).toBeVisible();
  await page.goto('/?query=checkout.nonsense');
  await expect(page.getByRole('alert')).toContainText('checkout.nonsense');
});

test('an answer that comes late does not replace a newer one', async ({ page }) => {
  let release = () => {};
  const held = new Promise<void>((resolve) => (release = resolve));
  await answerWith(page, 'SelectMergeStacktraces', async (r) => {
    const slow = r.request().postDataBuffer()!.includes('payments');
    if (slow) await held;
    await r.fulfill(graphOf(slow ? [['slow', 1e9]] : WORK)).catch(() => undefined); // the page may have given up on it
  });
  await page.goto(flame());
  await expect(canvas(page)).toHaveAttribute('data-frames', '7');
  await page.getByLabel('Service').selectOption('payments');
  await expect(page.getByRole('progressbar')).toHaveCount(1);
  await expect(canvas(page)).toHaveAttribute('data-frames', '7'); // the old picture stays
  await page.getByLabel('Service').selectOption('checkout');
  release();
  await expect(page.getByRole('progressbar')).toHaveCount(0);
  await expect(canvas(page)).toHaveAttribute('data-frames', '7');
});

test('without a timeline the profile is shown all the same', async ({ page }) => {
  await answerWith(page, 'SelectSeries', (r) => r.fulfill({ status: 500, json: { code: 'internal', message: 'no series today' } }));
  await open(page);
  await expect(page.locator('.over .warning')).toContainText('no series today');
  await expect(canvas(page)).toBeVisible();
  troubles = troubles.filter((t) => !t.startsWith('Failed to load resource'));
});

test('services: cards by use, filtered, starred, and the way to a flame graph', async ({ page }) => {
  await page.goto('/');
  const cards = page.locator('.service');
  await expect(cards).toHaveCount(3);
  await expect(cards.first()).toContainText(/payments|flametree|checkout/);
  await expect(cards.first().locator('svg.spark')).toBeVisible();
  await page.getByLabel('Sort').selectOption('Name');
  await expect(cards.first()).toContainText('checkout');
  await page.getByRole('button', { name: 'Favourite payments' }).click();
  await expect(cards.first()).toContainText('payments');
  await page.reload();
  await expect(cards.first()).toContainText('payments');
  await page.keyboard.press('/');
  await page.keyboard.type('CHECK');
  await expect(cards).toHaveCount(1);
  await expect.poll(() => parameter(page, 'filter')).toBe('CHECK');
  await page.getByLabel('Profile').selectOption({ label: 'Goroutines' });
  await page.getByRole('link', { name: 'checkout' }).click();
  await expect(page).toHaveURL(/\/flame\?query=goroutines:goroutine/);
  await expect(canvas(page)).toBeVisible();
  await page.goBack();
  await expect(cards).toHaveCount(1);
});

test('types: a card for each, and the way to a flame graph', async ({ page }) => {
  await page.goto(`/types?query=${encodeURIComponent(CHECKOUT)}`);
  const cards = page.locator('.service');
  await expect(cards).toHaveCount(4);
  await expect(page).toHaveTitle('checkout · Profile types – Flametree');
  await expect(cards.filter({ hasText: 'In-use space' })).toContainText('mean per profile');
  await expect(cards.filter({ hasText: 'CPU time' })).toContainText(/\d cores?/);
  await page.getByLabel('Service').selectOption('payments');
  await expect(cards).toHaveCount(2);
  await page.getByRole('link', { name: 'Allocated space' }).click();
  await expect(page).toHaveURL(/\/flame\?query=memory:alloc_space.*payments/);
  await expect(canvas(page)).toBeVisible();
});

test('labels: values over time and in all, and two of them to compare', async ({ page }) => {
  await page.goto(`/labels?query=${encodeURIComponent(CHECKOUT)}`);
  const labels = page.getByRole('navigation', { name: 'Labels' }), values = page.locator('table.values tbody tr');
  await expect(labels.getByRole('button', { name: 'pod 3' })).toHaveAttribute('aria-pressed', 'true');
  await labels.getByRole('button', { name: 'region 2' }).click();
  await expect.poll(() => parameter(page, 'groupBy')).toBe('region');
  await expect(values).toHaveCount(2);
  await expect(page.getByRole('heading', { name: 'CPU time by region' })).toBeVisible();
  await page.getByRole('button', { name: 'Histogram' }).click();
  await expect(page.getByRole('img', { name: 'Histogram of the values over time' }).first()).toBeVisible();
  await page.getByRole('button', { name: 'Base: us' }).click();
  await page.getByRole('button', { name: 'Comp.: eu' }).click();
  await page.getByRole('link', { name: 'Compare us → eu' }).click();
  await expect(page).toHaveURL(/\/compare\?/);
  await expect(page.getByRole('region', { name: 'Baseline' }).locator('.chip')).toHaveText('region = us');
  await expect(page.getByRole('region', { name: 'Comparison' }).locator('.chip')).toHaveText('region = eu');
  await page.goBack();
  await page.getByRole('button', { name: 'not eu' }).click();
  await expect.poll(() => parameter(page, 'query')).toContain('region!="eu"');
});

const CHANGED = { contentType: 'application/proto', body: encodeResponse(encodeDiff([['main;a', 5e9], ['main;b', 5e9]], [['main;a', 2e9], ['main;b', 6e9], ['main;new', 2e9]])) };

test('compare: moves, table, tooltip and sandwich of the change', async ({ page }) => {
  await answerWith(page, 'Diff', (r) => r.fulfill(CHANGED));
  await page.goto(`/compare?query=${encodeURIComponent(CHECKOUT)}&norm=share`);
  const moves = page.getByRole('list', { name: 'Biggest changes of self' });
  await expect(moves).toHaveText(/a−30\.0 ppnew\+20\.0 ppb\+10\.0 pp/);
  await expect.poll(async () => (await names(page)).slice(0, 3)).toEqual(['a', 'new', 'b']);
  await expect(rows(page).first()).toHaveText(/a50\.0 %20\.0 %−.*−30\.0 pp/);
  await expect(head(page, 'Change')).toHaveAttribute('aria-sort', 'descending');
  await hover(page, 0.95, 2);
  await expect(page.getByRole('tooltip')).toHaveText(/newBaselineComparisonChangeShare0 %20\.0 %\+20\.0 ppRate.*Total02\.00 snewSelf02\.00 s\+20\.0 pp/);
  await moves.getByRole('button', { name: /^b/ }).click();
  await expect.poll(() => parameter(page, 'fn')).toBe('b');
  await expect(page.locator('.hits')).toContainText('50.0 % → 60.0 %');
  await page.keyboard.press('s');
  await expect(page.locator('.middle')).toContainText('total 50.0 % → 60.0 %');
  await page.keyboard.press('b');
  await page.getByRole('combobox', { name: 'Colours' }).selectOption('Green–red');
  await expect.poll(() => parameter(page, 'palette')).toBe('classic');
});

test('compare: sides have their own times and filters, swap, the previous period, and links', async ({ page, context }) => {
  const asked: { left: string; right: string }[] = [];
  await answerWith(page, 'Diff', (r) => {
    const sent = r.request().postDataBuffer()!;
    const length = sent.readUInt8(1) > 127 ? ((sent[2] << 7) | (sent[1] & 127)) : sent[1], at = (sent[1] > 127 ? 3 : 2) + length;
    asked.push({ left: sent.subarray(0, at).toString('latin1'), right: sent.subarray(at).toString('latin1') });
    return r.fulfill(CHANGED);
  });
  await page.goto(`/comparison-diff?query=${encodeURIComponent(CHECKOUT)}&from=1795168800000&until=1795172400000&rightQuery=${encodeURIComponent(`${CPU}{service_name="checkout", region="eu"}`)}`);
  const [left, right] = ['Baseline', 'Comparison'].map((name) => page.getByRole('region', { name }));
  await expect(right.locator('.chip')).toHaveText('region = eu');
  await expect(left.locator('.chip')).toHaveCount(0);
  await expect.poll(() => asked.length).toBeGreaterThan(0);
  expect(asked[0].left).not.toContain('region');
  expect(asked[0].right).toContain('region="eu"');
  await drag(page, 0.1, 0.4);
  await expect.poll(() => parameter(page, 'leftFrom')).toMatch(/^\d{13}$/);
  await expect(left).toContainText(/20 Nov 2026, 10:0[56]/);
  await expect(right).toContainText('20 Nov 2026, 10:00:00 – 11:00:00');
  await page.getByRole('button', { name: 'Swap' }).click();
  await expect(left.locator('.chip')).toHaveText('region = eu');
  await expect(right).toContainText(/20 Nov 2026, 10:0[56]/);
  await page.getByLabel('Baseline').first().selectOption('Previous period');
  await expect(left).toContainText('20 Nov 2026, 09:00:00 – 10:00:00');
  await expect(right).toContainText('20 Nov 2026, 10:00:00 – 11:00:00');
  // Relative times become fixed ones in a link that is to show the same tomorrow.
  await keepToasts(page);
  await context.grantPermissions(['clipboard-read', 'clipboard-write']);
  await page.goto(`/compare?query=${encodeURIComponent(CHECKOUT)}&leftFrom=now-2h&leftUntil=now-1h`);
  await expect(page.locator('.moves')).toBeVisible();
  await page.getByRole('button', { name: 'Copy link' }).click();
  await page.getByRole('button', { name: /Absolute time link/ }).click();
  await said(page).toContain('Link copied');
  const copied = new URL(await page.evaluate(() => navigator.clipboard.readText())).searchParams;
  const [whole, base, comparison] = ['from', 'leftFrom', 'rightFrom'].map((k) => Number(copied.get(k)));
  expect([whole - base, comparison - whole, Number(copied.get('leftUntil')) - base]).toEqual([3600e3, 0, 3600e3]);
});

test('compare: the old name of a side waits for the list of services', async ({ page }) => {
  let release = () => {};
  const held = new Promise<void>((resolve) => (release = resolve));
  await page.route('**/Series', async (r) => {
    await held;
    await r.continue();
  });
  await page.goto(`/compare?query=${encodeURIComponent(CHECKOUT)}&rightQuery=payments.cpu`);
  await expect(page.getByRole('progressbar')).toHaveCount(1);
  await expect(page.getByRole('alert')).toHaveCount(0);
  release();
  await expect(page.getByRole('region', { name: 'Comparison' }).locator('.chip')).toHaveText('service_name = payments');
  await expect(page.locator('.moves')).toBeVisible();
});

const STATES: [what: string, address: string, ready: string][] = [
  ['services', '/', 'svg.spark'], ['types', `/types?query=${encodeURIComponent(CHECKOUT)}`, 'svg.spark'], ['a search', flame('&search=Serve'), '.hits b'], ['a table', flame('&show=table&color=self'), '.trow'],
  ['a sandwich', flame('&show=sandwich&fn=net/http.(*conn).serve'), '.middle'],
  ['colours by function', flame('&show=flame&color=function&order=heavy'), 'canvas[data-drawn]'],
  ['labels', `/labels?query=${encodeURIComponent(CHECKOUT)}&measure=hist`, '.values td'],
  ['a comparison', `/compare?query=${encodeURIComponent(CHECKOUT)}`, '.moves'],
  ['a comparison in green and red', `/compare?query=${encodeURIComponent(CHECKOUT)}&palette=classic&show=table`, '.moves'],
];
for (const [what, address, ready] of STATES) {
  test(`${what}: accessible in both themes, and as narrow as a phone or a zoom of 200 %`, async ({ page }) => {
    test.slow();
    await page.emulateMedia({ colorScheme: 'light', reducedMotion: 'reduce' });
    await page.goto(address);
    for (const width of [1280, 640, 400]) {
      await page.setViewportSize({ width, height: 800 });
      await expect(page.locator(ready).first()).toBeVisible();
      await expect(page.getByRole('progressbar')).toHaveCount(0);
      await expect.poll(() => page.evaluate(() => document.documentElement.scrollWidth), `${width}`).toBe(width);
      if (width !== 640) await accessible(page, `light, ${width}`);
    }
    await page.emulateMedia({ colorScheme: 'dark', reducedMotion: 'reduce' });
    await expect.poll(() => page.evaluate(() => document.documentElement.dataset.theme)).toBe('dark');
    await accessible(page, 'dark');
  });
}

test('what opens is accessible in both themes', async ({ page }) => {
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    await page.goto(flame());
    await expect(canvas(page)).toHaveAttribute('data-drawn', /\d/);
    await click(page, 0.5, 1, 'right');
    await expect(page.getByRole('menu')).toBeVisible();
    await accessible(page, `menu, ${colorScheme}`);
    await page.keyboard.press('Escape');
    await page.getByRole('button', { name: 'Copy link' }).click();
    await accessible(page, `copy link, ${colorScheme}`);
  }
});
