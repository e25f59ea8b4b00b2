// A server that has nothing to show, or only profiles of itself, tells how to send some; and what failures offer.
import { expect, test, type Page } from '@playwright/test';
import { readFileSync } from 'node:fs';
import { accessible, answerWith, canvas, CHECKOUT, CPU, parameter, watch } from './pages';
import { readWays } from '../src/start';

let troubles: string[] = [];
test.beforeEach(({ page }) => {
  troubles = watch(page);
});
test.afterEach(() => {
  expect(troubles).toEqual([]);
});
const source = (name: string) => readFileSync(new URL(`../src/${name}`, import.meta.url), 'utf8');

const seriesOf = (...services: string[]) => ({
  labelsSet: services.map((s) => ({ labels: [{ name: '__profile_type__', value: CPU }, { name: 'service_name', value: s }] })),
});
async function nothing(page: Page) {
  await answerWith(page, 'Series', (r) => r.fulfill({ json: {} }));
  await answerWith(page, 'GetProfileStats', (r) => r.fulfill({ json: {} }));
}

test('the ways to send have names, code and the address of the server', () => {
  const ways = readWays(source('start.txt'), 'https://profiles.example/x');
  expect(ways.map((w) => w.name)).toEqual(['Go', 'Python', 'Node.js', 'Rust', 'Ruby', '.NET', 'Java', 'Grafana Alloy', 'eBPF', 'A file', 'Text', 'Client']);
  for (const { name, about, code } of ways) {
    expect(about, name).toMatch(/\.$/);
    expect(code.filter((c) => c.includes('https://profiles.example/x')).length, name).toBe(1);
    for (const c of code) expect(c, name).toMatch(/^\S[^]*\S$/);
  }
});

test('with no profile at all: a way per language with this address, to be copied, and what works', async ({ page, baseURL, context }) => {
  await context.grantPermissions(['clipboard-read', 'clipboard-write']);
  await nothing(page);
  await page.goto('/');
  await expect(page.getByRole('heading', { level: 1, name: 'No profiles yet' })).toBeVisible();
  await expect(page.locator('pre').nth(1)).toContainText(`ServerAddress:   "${baseURL}"`);
  await page.getByRole('button', { name: 'Python' }).click();
  await expect(page.getByRole('button', { name: 'Python' })).toHaveAttribute('aria-pressed', 'true');
  await page.getByRole('button', { name: 'Copy', exact: true }).nth(1).click();
  expect(await page.evaluate(() => navigator.clipboard.readText())).toContain(`server_address="${baseURL}"`);
  const known = JSON.parse(source('formats.json')) as Record<string, { name: string; works: boolean; tested?: boolean }[]>;
  for (const { name, works, tested } of [...known.formats, ...known.agents]) {
    const row = page.getByRole('row').filter({ has: page.getByRole('rowheader', { name, exact: true }) });
    await expect(row).toContainText(!works ? 'not yet' : tested === false ? 'expected' : 'yes');
  }
});

test('behind a proxy the address has its path', async ({ page, baseURL }) => {
  await nothing(page);
  await page.goto('/behind/a/proxy/flame');
  await expect(page.locator('pre').nth(1)).toContainText(`"${baseURL}/behind/a/proxy"`);
});

test('profiles of the server alone do not hide how to send others, and can be seen', async ({ page }) => {
  await page.clock.install();
  await answerWith(page, 'Series', (r) => r.fulfill({ json: seriesOf('flametree') }));
  await page.goto('/');
  await expect(page.getByRole('heading', { level: 1, name: 'Send your profiles' })).toBeVisible();
  await expect(page.locator('main')).not.toContainText('cores');
  await page.getByRole('link', { name: 'show them' }).click();
  await expect(canvas(page)).toBeVisible();
  expect(parameter(page, 'query')).toBe(`${CPU}{service_name="flametree"}`);
  await page.goBack();
  await page.unrouteAll();
  await expect(async () => { // the first service is seen without a reload
    await page.clock.runFor(2500);
    await expect(page.locator('.service')).toHaveCount(3, { timeout: 100 });
  }).toPass({ intervals: [50] });
});

test('other services outside the range: the overview as ever', async ({ page }) => {
  await answerWith(page, 'Series', (r) => r.fulfill({ json: seriesOf('flametree', ...(r.request().postDataJSON().start < Date.now() - 2 * 3600e3 ? ['shop'] : [])) }));
  await page.goto('/');
  await expect(page.locator('.service')).toHaveCount(1);
});

test('where the server refuses to look as far back as it has profiles, it is asked for less', async ({ page }) => {
  const asked: number[] = [];
  await answerWith(page, 'Series', (r) => {
    const { start, end } = r.request().postDataJSON() as { start: number; end: number };
    asked.push(Math.round((end - start) / 3600e3));
    return end - start > 25 * 3600e3 ? r.fulfill({ status: 400, json: { code: 'invalid_argument', message: 'too long' } }) : r.fulfill({ json: seriesOf('flametree') });
  });
  await page.goto('/');
  await expect(page.getByRole('heading', { level: 1, name: 'Send your profiles' })).toBeVisible();
  expect(asked[0]).toBe(1);
  expect(asked.slice(-2)).toEqual([720, 24]);
  troubles = troubles.filter((t) => !t.startsWith('Failed to load resource'));
});

for (const colorScheme of ['light', 'dark'] as const) {
  test(`how to send is accessible in the ${colorScheme} theme and fits a phone`, async ({ page }) => {
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    await nothing(page);
    for (const width of [1400, 390]) {
      await page.setViewportSize({ width, height: 844 });
      await page.goto('/');
      await expect(page.locator('pre').first()).toBeVisible();
      await accessible(page, `start at ${width}`);
      await expect.poll(() => page.evaluate(() => document.documentElement.scrollWidth)).toBe(width);
      if (process.env.SHOTS) await page.screenshot({ path: `${process.env.SHOTS}/start-${colorScheme}-${width}.png`, fullPage: true });
    }
  });
}

const PAGES = ['/', '/types', '/flame', '/labels', '/compare'];
test('one failure is one message, and trying again is offered only where it may help', async ({ page }) => {
  for (const [code, again] of [['invalid_argument', 0], ['not_found', 0], ['permission_denied', 0], ['unimplemented', 0], ['unavailable', 1], ['internal', 1]] as const) {
    await page.route('**/querier.v1.*/*', (r) => r.fulfill({ status: 500, json: { code, message: 'because of the test' } }));
    for (const path of PAGES) {
      await page.goto(`${path}?query=${encodeURIComponent(CHECKOUT)}`);
      await expect(page.getByRole('alert'), `${path} ${code}`).toHaveCount(1);
      await expect(page.getByRole('button', { name: 'Try again' }), `${path} ${code}`).toHaveCount(again);
      await expect(page.getByText('because of the test'), `${path} ${code}`).toHaveCount(1);
      await expect(page.getByText('did not load'), `${path} ${code}`).toHaveCount(0);
    }
    await page.unrouteAll();
  }
  expect(troubles.filter((t) => !t.startsWith('Failed to load resource'))).toEqual([]);
  troubles.length = 0;
});

test('a failed refresh keeps cards and lines, and says of when they are', async ({ page }) => {
  for (const [path, kept] of [['/', '.service'], ['/types', '.service'], ['/labels', '.values']]) {
    await page.goto(path === '/' ? path : `${path}?query=${encodeURIComponent(CHECKOUT)}`);
    await expect(page.locator(kept).first()).toBeVisible();
    await answerWith(page, 'SelectSeries', (r) => r.fulfill({ status: 500, json: { code: 'internal', message: 'no more' } }));
    await page.getByRole('button', { name: 'Refresh', exact: true }).click();
    await expect(page.getByRole('alert')).toHaveText(/^The server failed: no more · shown is the answer of \d\d:\d\d:\d\dTry again$/);
    await expect(page.locator(kept).first()).toBeVisible();
    await page.unrouteAll();
    await page.getByRole('button', { name: 'Try again' }).click();
    await expect(page.getByRole('alert')).toHaveCount(0);
  }
  expect(troubles.filter((t) => !t.startsWith('Failed to load resource'))).toEqual([]);
  troubles.length = 0;
});
