// Texts whose words depend on what is shown.
import { expect, test } from '@playwright/test';
import { typeInText, typeName } from '../src/ptype';

test('names of profile types begin small within a sentence, short forms stay', () => {
  const named = (id: string) => [typeName(id), typeInText(id)];
  expect(named('memory:inuse_space:bytes:space:bytes')).toEqual(['In-use space', 'in-use space']);
  expect(named('process_cpu:cpu:nanoseconds:cpu:nanoseconds')).toEqual(['CPU time', 'CPU time']);
  expect(named('goroutines:goroutine:count:goroutine:count')).toEqual(['Goroutines', 'goroutines']);
});

test('a service without the chosen type says what it has', async ({ page }) => {
  await page.goto('/?type=memory:inuse_space:bytes:space:bytes');
  await expect(page.locator('.service').filter({ hasText: 'payments' })).toContainText(/No in-use space; has (CPU time|allocated space), (CPU time|allocated space)/);
});
