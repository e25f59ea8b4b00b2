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

/** Colours of lines that are shown together, told apart on the theme's background. */
const LINES: Record<Theme, string[]> = {
  dark: ['#ff8552', '#6aa9ff', '#5cc98f', '#d9a8ff', '#f2c94c', '#4fd0d9', '#ff8fb1', '#a5b4c4'],
  light: ['#c8431a', '#1769c9', '#1a7f4b', '#7c3fc0', '#8a6000', '#0b7c86', '#b8316a', '#566272'],
};
export const lineColors = (of: Theme): string[] => LINES[of];

/** Baseline and comparison. */
const SIDES: Record<Theme, { a: string; b: string }> = { dark: { a: '#6aa9ff', b: '#ffa64d' }, light: { a: '#1769c9', b: '#9c4f00' } };
export const sideColors = (of: Theme): { a: string; b: string } => SIDES[of];
