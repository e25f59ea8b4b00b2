// The page of a running server, named by FLAMETREE_URL, that has profiles of the service `flametree`.
import { expect, test } from '@playwright/test';

const SERVER = process.env.FLAMETREE_URL;

test('a running server shows a flame graph of itself', async ({ page }) => {
  test.skip(!SERVER, 'FLAMETREE_URL is not set');
  const troubles: string[] = [];
  page.on('console', (m) => m.type() === 'error' && troubles.push(m.text()));
  page.on('pageerror', (e) => troubles.push(String(e)));
  await page.setViewportSize({ width: 1600, height: 1000 });
  await page.goto(`${SERVER!.replace(/\/$/, '')}/?query=${encodeURIComponent('{service_name="flametree"}')}`);
  const canvas = page.getByRole('application');
  await expect(canvas).toBeVisible({ timeout: 10_000 });
  const box = (await canvas.boundingBox())!, tip = page.getByRole('tooltip');
  // The frames below the root need not fill it: try across the width.
  await expect(async () => {
    for (let share = 0.1; share < 1; share += 0.1) {
      await page.mouse.move(box.x + box.width * share, box.y + 30);
      if (await tip.isVisible()) break;
    }
    await expect(tip.locator('.function')).toHaveText(/\S/, { timeout: 500 });
  }).toPass({ timeout: 5000 });
  await expect(tip).toContainText('Total');
  await expect(tip).toContainText('Self');
  if (process.env.FLAMETREE_SCREENSHOT) await page.screenshot({ path: process.env.FLAMETREE_SCREENSHOT });
  expect(troubles).toEqual([]);
});
