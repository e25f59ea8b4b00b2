// The theme follows the system until the viewer chooses; choosing what the system has anyway follows it again.
import { computed, effect, signal } from '@preact/signals';
import type { Theme } from '../flame/colors';

const KEY = 'flametree-theme';
const systemDark = matchMedia('(prefers-color-scheme: dark)');

function stored(): Theme | null {
  try {
    const text = localStorage.getItem(KEY);
    return text === 'dark' || text === 'light' ? text : null;
  } catch {
    return null; // storage is forbidden: the choice lasts as long as the page
  }
}

const system = signal<Theme>(systemDark.matches ? 'dark' : 'light');
const chosen = signal<Theme | null>(stored());
systemDark.addEventListener('change', () => (system.value = systemDark.matches ? 'dark' : 'light'));

export const theme = computed<Theme>(() => chosen.value ?? system.value);

effect(() => {
  document.documentElement.dataset.theme = theme.value;
});

export function toggleTheme(): void {
  const next: Theme = theme.value === 'dark' ? 'light' : 'dark';
  chosen.value = next === system.value ? null : next;
  try {
    if (chosen.value) localStorage.setItem(KEY, chosen.value);
    else localStorage.removeItem(KEY);
  } catch {
    // as above
  }
}
