// What tests of the page in a browser share.
import { expect, type Page, type Route } from '@playwright/test';
import { readFileSync } from 'node:fs';
import { encodeLevels, encodeResponse } from './profiles.mjs';

export const CPU = 'process_cpu:cpu:nanoseconds:cpu:nanoseconds';
export const CHECKOUT = `${CPU}{service_name="checkout"}`;
const AXE = readFileSync(new URL('../node_modules/axe-core/axe.min.js', import.meta.url), 'utf8');

/** Collects what no test may meet: errors on the console, violations of the content security policy, other hosts. */
export function watch(page: Page): string[] {
  const troubles: string[] = [];
  page.on('console', (m) => m.type() === 'error' && troubles.push(m.text()));
  page.on('pageerror', (e) => troubles.push(String(e)));
  page.on('request', (r) => {
    const host = new URL(r.url()).hostname;
    if (host !== '127.0.0.1' && host !== 'localhost') troubles.push(`asked ${r.url()}`);
  });
  return troubles;
}

export const canvas = (page: Page) => page.getByRole('application');
export const answerWith = (page: Page, method: string, how: (route: Route) => unknown) => page.route(`**/${method}`, how as never);
export const graphOf = (stacks: [string, number][]) => ({ contentType: 'application/proto', body: encodeResponse(encodeLevels(stacks)) });
export const parameter = (page: Page, name: string) => new URL(page.url()).searchParams.get(name);
export const flame = (rest = '', query = CHECKOUT) => `/flame?query=${encodeURIComponent(query)}${rest}`;

/** Nothing is under way and the font is there: what is on screen stays where it is. */
export async function settled(page: Page) {
  await expect(page.getByRole('progressbar')).toHaveCount(0);
  await page.evaluate(async () => {
    await document.fonts.load('12px "Inter Variable"');
    await new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)));
  });
}
/** Where a share of the width meets a level, when the picture stands still. */
export async function spot(page: Page, share: number, level: number, of = canvas(page)) {
  await page.evaluate(() => document.fonts.load('12px "Inter Variable"'));
  await expect(of).toHaveAttribute('data-drawn', /\d/);
  const box = (await of.boundingBox())!;
  return { x: box.x + box.width * share, y: box.y + level * 20 + 10 };
}
export async function hover(page: Page, share: number, level: number) {
  const { x, y } = await spot(page, share, level);
  await page.mouse.move(x, y);
}
export async function click(page: Page, share: number, level: number, button: 'left' | 'right' = 'left', of = canvas(page)) {
  const { x, y } = await spot(page, share, level, of);
  await page.mouse.click(x, y, { button });
}

/** From one share of a timeline's width to another. */
export async function drag(page: Page, from: number, to: number, which = 0) {
  const plot = page.locator('.u-over').nth(which);
  await expect(plot).toBeVisible();
  await settled(page);
  const box = (await plot.boundingBox())!, y = box.y + box.height / 2;
  await page.mouse.move(box.x + box.width * from, y);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * ((from + to) / 2), y, { steps: 3 });
  await page.mouse.move(box.x + box.width * to, y, { steps: 3 });
  await page.mouse.up();
}

/** Toasts go after a moment: `said` is all of them since the page was loaded. To be called before it is. */
export async function keepToasts(page: Page) {
  await page.addInitScript(() => {
    const said: string[] = [];
    Object.assign(globalThis, { said });
    new MutationObserver(() => said.push(document.querySelector('.toast')?.textContent ?? ''))
      .observe(document, { subtree: true, childList: true, characterData: true });
  });
}
export const said = (page: Page) => expect.poll(() => page.evaluate(() => (globalThis as unknown as { said: string[] }).said));

/** Two keys one after the other, until what they do has happened: the second may have come too late for the first. */
export async function pair(page: Page, keys: [string, string], done: () => Promise<void>) {
  await expect(async () => {
    for (const key of keys) await page.keyboard.press(key);
    await done();
  }).toPass();
}

/** WCAG 2.1 A and AA. */
export async function accessible(page: Page, what: string) {
  await page.evaluate(async () => { // colours on their way are not those that stay
    await document.fonts.load('12px "Inter Variable"');
    const finite = document.getAnimations().filter((a) => a.effect?.getComputedTiming().iterations !== Infinity);
    await Promise.allSettled(finite.map((a) => a.finished));
  });
  await page.evaluate(AXE); // not subject to the page's policy
  const faults = await page.evaluate(async () => {
    const axe = (globalThis as unknown as { axe: { run(d: Document, o: object): Promise<{ violations: { id: string; nodes: { html: string }[] }[] }> } }).axe;
    const { violations } = await axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa'] });
    return violations.map((v) => `${v.id}: ${v.nodes[0].html.slice(0, 200)}`);
  });
  expect(faults, what).toEqual([]);
}
