// The pages of a running server, named by FLAMETREE_URL, that has profiles of the service `flametree`; more are pushed
// here. What is on screen is compared with what was pushed.
import { expect, test, type Page } from '@playwright/test';
import { readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { canvas, click, CPU, drag, flame, hover, settled, watch } from './pages';

const SERVER = process.env.FLAMETREE_URL?.replace(/\/$/, ''), PUSH = (process.env.FLAMETREE_PUSH_URL ?? SERVER)?.replace(/\/$/, '');
test.skip(!SERVER, 'FLAMETREE_URL is not set');

const NOW = Math.floor(Date.now() / 1000), EARLY = NOW - 1200, LATE = NOW - 600;
const SHOP = `shop-${NOW}${process.pid}`, QUERY = `${CPU}{service_name="${SHOP}"}`, RANGE = `&from=${(NOW - 1800) * 1000}&until=${NOW * 1000}`;

let troubles: string[] = [];
test.beforeEach(({ page }) => {
  troubles = watch(page);
});
test.afterEach(() => {
  expect(troubles).toEqual([]);
});

/** Collapsed stacks in hundredths of a second. */
async function push(name: string, at: number, folded: string): Promise<void> {
  const q = new URLSearchParams({ name, from: String(at), until: String(at + 10), sampleRate: '100', spyName: 'gospy' });
  const r = await fetch(`${PUSH}/ingest?${q}`, { method: 'POST', body: folded, headers: { 'Content-Type': 'text/plain' } });
  expect(r.status, await r.text()).toBe(200);
}
test.beforeAll(async () => {
  if (!SERVER) return;
  await push(`${SHOP}.cpu{region=eu}`, EARLY, 'main;work 300\nmain;work;alloc 200\nmain;idle 500');
  await push(`${SHOP}.cpu{region=us}`, LATE, 'main;work 300\nmain;walk;walk;alloc 100\nmain;rare;x1 1\nmain;rare;x2 2\nmain;rare;x3 3\nmain;rare;x4 4');
});
const visit = (page: Page, address: string) => page.goto(SERVER + address);
const total = (page: Page) => page.locator('.total');

test('the server answers with the page at its addresses, and nowhere else', async ({ page }) => {
  for (const path of ['/', '/types', '/flame', '/labels', '/explore', '/compare', '/comparison', '/comparison-diff', '/diff']) {
    const r = await page.request.get(SERVER + path, { headers: { Accept: 'text/html' } });
    expect([r.status(), r.headers()['content-type']], path).toEqual([200, 'text/html; charset=utf-8']);
    expect(r.headers()['content-security-policy'], path).toContain("default-src 'self'");
  }
  for (const path of ['/nothing', '/assets/nothing.js']) expect((await page.request.get(SERVER + path)).status(), path).toBe(404);
});

test('from the services to the flame graph, which has exactly what was pushed', async ({ page }) => {
  await visit(page, '/');
  const card = page.locator('.service').filter({ hasText: SHOP });
  await expect(card).toContainText('cores');
  await card.getByRole('link').click();
  await expect(total(page)).toHaveText('14.1 s total'); // 10.00 + 4.10
  await expect(page.locator('.pill')).toContainText('exact · 2 profiles');
  await hover(page, 0.5, 0);
  await expect(page.getByRole('tooltip')).toContainText('14\u202f100\u202f000\u202f000');
});

test('dragging the timeline to one push shows that push, and Back both', async ({ page }) => {
  await visit(page, flame(RANGE, QUERY));
  await expect(total(page)).toHaveText('14.1 s total');
  await drag(page, 0.2, 0.5); // the first lies at a third
  await expect(total(page)).toHaveText('10.0 s total');
  await page.goBack();
  await expect(total(page)).toHaveText('14.1 s total');
  await expect(page.locator('.plot .canvas')).toHaveAttribute('data-drawn', `${(NOW - 1800) * 1000} ${NOW * 1000}`);
  await drag(page, 0.5, 0.8);
  await expect(total(page)).toHaveText('4.10 s total');
});

test('table, search and sandwich of what was pushed; the link shows the same to others', async ({ page, browser }) => {
  await visit(page, flame(RANGE, QUERY));
  const rows = page.locator('.trow'), head = (name: string) => page.getByRole('columnheader', { name }).getByRole('button');
  await expect(rows.first()).toContainText('work6.00 s8.00 s');
  await head('Total').click();
  await expect(rows.first()).toContainText('main014.1 s');
  await page.keyboard.press('/');
  await page.keyboard.type('walk|alloc');
  await expect(page.locator('.hits')).toContainText('21.3 % · 3.00 s'); // alloc in work 2 s, the outer walk 1 s
  await rows.filter({ hasText: 'alloc' }).click({ button: 'right' });
  await page.getByRole('menuitem', { name: 'Callers and callees' }).click();
  await expect(page.locator('.middle')).toContainText('alloctotal 3.00 s 21.3 %self 3.00 s');
  const context = await browser.newContext({ timezoneId: 'UTC', locale: 'en-GB' }), other = await context.newPage(), seen = watch(other);
  await other.goto(page.url());
  await expect(other.locator('.middle')).toContainText('alloctotal 3.00 s 21.3 %self 3.00 s');
  await expect(other.getByLabel('Search functions')).toHaveValue('walk|alloc');
  await expect(other.getByRole('columnheader', { name: 'Total' })).toHaveAttribute('aria-sort', 'descending');
  expect(seen).toEqual([]);
  await context.close();
});

test('what the server cut off is fetched by a click, exactly', async ({ page }) => {
  // Eight frames are as heavy as `rare`, which keeps its place on the right; x1 to x4 below it are lighter.
  await visit(page, flame(`${RANGE}&maxNodes=8&order=heavy&show=flame`, QUERY));
  await expect(canvas(page)).toHaveAttribute('data-drawn', '10');
  const tip = page.getByRole('tooltip');
  await hover(page, 0.997, 3);
  await expect(tip).toContainText(/^othernot a function.*100 ms/);
  await click(page, 0.997, 3);
  await expect(page.locator('.narrowed')).toContainText('Only this call path: rare');
  await expect(total(page)).toHaveText('100 ms total');
  await expect(page.locator('.path .here')).toHaveText('rare');
  await hover(page, 0.1, 3);
  await expect(tip).toContainText(/^x4.*40.0 ms40.0 %/);
});

test('the profile is saved as pprof and as collapsed stacks', async ({ page }) => {
  await visit(page, flame(RANGE, QUERY));
  const take = async (name: RegExp) => {
    await page.getByRole('button', { name: 'Download' }).click();
    const saved = page.waitForEvent('download');
    await page.getByRole('dialog', { name: 'Download' }).getByRole('button', { name }).click();
    return saved;
  };
  const text = await take(/Collapsed/);
  expect(text.suggestedFilename()).toMatch(/^shop-\d+-CPU_time-.*\.folded\.txt$/);
  expect(readFileSync(await text.path(), 'utf8').split('\n')).toContain('main;walk;walk;alloc 1000000000');
  const pprof = await take(/pprof/), bytes = gunzipSync(readFileSync(await pprof.path())).toString('latin1');
  expect(pprof.suggestedFilename()).toMatch(/\.pb\.gz$/);
  for (const name of ['nanoseconds', 'rare', 'x4', 'idle']) expect(bytes).toContain(name);
});

test('labels lead to a comparison that adds up', async ({ page }) => {
  await visit(page, `/labels?query=${encodeURIComponent(QUERY)}${RANGE}&groupBy=region`);
  const row = (name: string) => page.locator('table.values tr').filter({ hasText: name });
  await expect(row('eu')).toContainText('70.9 %'); // 10 of 14.1 s
  await expect(row('us')).toContainText('29.1 %');
  await page.getByRole('button', { name: 'Base: eu' }).click();
  await page.getByRole('button', { name: 'Comp.: us' }).click();
  await page.getByRole('link', { name: 'Compare eu → us' }).click();
  await expect(page.getByRole('region', { name: 'Baseline' })).toContainText('10.0 s');
  await expect(page.getByRole('region', { name: 'Comparison' })).toContainText('4.10 s');
  // work for itself: 3 of 10 s before, 3 of 4.1 s after; idle: half before, nothing after
  await expect(page.getByRole('list', { name: 'Biggest changes of self' })).toContainText('idle−50.0 pp');
  await expect(page.getByRole('list', { name: 'Biggest changes of self' })).toContainText('work+43.2 pp');
});

test('an old name in a link is found', async ({ page }) => {
  await visit(page, `/?query=${encodeURIComponent(`${SHOP}.cpu{region="us"}`)}${RANGE}`);
  await expect(total(page)).toHaveText('4.10 s total');
});

test('a refused query shows the words of the server', async ({ page }) => {
  await visit(page, flame(RANGE, `${CPU}{service_name=~"("}`));
  await expect(page.getByRole('alert')).toContainText('The server refused the query');
  troubles = troubles.filter((t) => !t.startsWith('Failed to load resource'));
});

test('a running server shows a flame graph of itself', async ({ page }) => {
  await page.setViewportSize({ width: 1280, height: 800 });
  await visit(page, `/?query=${encodeURIComponent('{service_name="flametree"}')}&from=now-15m`);
  await expect(canvas(page)).toHaveAttribute('data-drawn', /\d/);
  await settled(page);
  const box = (await canvas(page).boundingBox())!, tip = page.getByRole('tooltip');
  // The frames below the root need not fill it: try across the width.
  await expect(async () => {
    for (let share = 0.1; share < 1; share += 0.1) {
      await page.mouse.move(box.x + box.width * share, box.y + 30);
      if (await tip.isVisible()) break;
    }
    await expect(tip.locator('.function')).toHaveText(/\S/, { timeout: 500 });
  }).toPass();
  await expect(tip).toContainText('Total');
  await expect(tip).toContainText('Self');
  await page.mouse.move(5, 5);
  if (process.env.FLAMETREE_SCREENSHOT) await page.screenshot({ path: process.env.FLAMETREE_SCREENSHOT });
});
