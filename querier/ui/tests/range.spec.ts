// How a time range is chosen: ranges that are offered, times that are typed, dates in the address. And where the labels are.
import { expect, test } from '@playwright/test';
import { accessible, canvas, CHECKOUT, flame, parameter, watch } from './pages';
import { fromField, rangeText, readRange, readTime, toField, utc } from '../src/time';

let troubles: string[] = [];
test.beforeEach(({ page }) => {
  troubles = watch(page);
});
test.afterEach(() => {
  expect(troubles).toEqual([]);
});

const NOW = Date.UTC(2026, 10, 21, 9, 30), DAY = 86400e3;

test('dates are read as ISO 8601 writes them, in their zone or that of the page', () => {
  utc.value = true;
  const nine = Date.UTC(2026, 10, 21, 9), day = Date.UTC(2026, 10, 21);
  for (const text of ['2026-11-21T09:00Z', '2026-11-21T09:00:00Z', '2026-11-21T09:00:00.000z', '2026-11-21 09:00', '2026-11-21T09:00:00', '2026-11-21T10:00+01:00',
    '2026-11-21T10:00 01:00', '2026-11-21T10:00 +0100', '2026-11-21T03:30-05:30']) expect(readTime(text, NOW), text).toBe(nine);
  expect([readTime('2026-11-21T09:00:01.5Z', 0), readTime('2026-11-21', 0), readTime('2026-11-21', 0, true)]).toEqual([nine + 1500, day, day + DAY]);
  expect(readRange('2026-11-21', '2026-11-21', NOW)).toEqual({ start: day, end: day + DAY });
  for (const bad of ['2026-02-31', '2026-13-01', '2026-11-21T24:00', '2026-11-21T09:60', '2026-11-21T9:00', '26-11-21', '2026-11', '2026-11-21X']) expect(readTime(bad, 0), bad).toBeNull();
  utc.value = false;
  expect(readTime('2026-11-21 09:00', 0)).toBe(new Date(2026, 10, 21, 9).getTime());
  expect(readTime('2026-11-21', 0, true)).toBe(new Date(2026, 10, 22).getTime());
});

test('a field takes relative times as they are and keeps others in ms', () => {
  expect([' now-90m ', 'now', 'Now - 2h', 'now-3d'].map((t) => fromField(t))).toEqual(['now-90m', 'now', 'now-2h', 'now-3d']);
  expect([fromField('2026-11-21T09:00Z'), fromField('2026-11-21T09:00Z', true), fromField('1795168800000')])
    .toEqual([String(Date.UTC(2026, 10, 21, 9)), String(Date.UTC(2026, 10, 21, 9)), '1795168800000']);
  expect(['', 'yesterday', 'now+1h', '11/21/2026'].map((t) => fromField(t))).toEqual([null, null, null, null]);
  expect([toField('now-2h', 0), rangeText('now-2h', 'now-1h', { start: 0, end: 1 })]).toEqual(['now-2h', 'now-2h – now-1h']);
});

test('relative times are typed into the fields and stay relative, and what is no time is said', async ({ page }) => {
  await page.goto(flame());
  await page.getByRole('button', { name: 'Last hour' }).click();
  const from = page.getByLabel('From'), until = page.getByLabel('Until');
  await expect(from).toHaveValue('now-1h');
  await from.fill('yesterday');
  await page.getByRole('button', { name: 'Apply' }).click();
  await expect(page.getByRole('alert')).toHaveText('“yesterday” is not a time.');
  await accessible(page, 'range');
  await from.fill('now-90m');
  await until.fill('now-30m');
  await page.getByRole('button', { name: 'Apply' }).click();
  await expect.poll(() => [parameter(page, 'from'), parameter(page, 'until')]).toEqual(['now-90m', 'now-30m']);
  await page.getByRole('button', { name: 'now-90m – now-30m' }).click();
  await page.getByRole('button', { name: 'Last 3 hours' }).click();
  await expect.poll(() => [parameter(page, 'from'), parameter(page, 'until')]).toEqual(['now-3h', null]);
});

test('dates in an address are understood', async ({ page }) => {
  await page.goto(flame('&from=2026-11-21T09:00Z&until=2026-11-21T10:30%2B01:00'));
  await expect(page.getByRole('button', { name: '21 Nov 2026, 09:00:00 – 09:30:00' })).toBeVisible();
  await expect(canvas(page)).toBeVisible();
});

test('the page of labels is at /labels, and at the older address too', async ({ page }) => {
  for (const path of ['/labels', '/explore']) {
    await page.goto(`${path}?query=${encodeURIComponent(CHECKOUT)}`);
    await expect(page.locator('.values')).toBeVisible();
  }
  await page.goto(flame());
  await page.getByRole('link', { name: 'Labels' }).click();
  await expect.poll(() => new URL(page.url()).pathname).toBe('/labels');
});
