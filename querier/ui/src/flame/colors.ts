// Colours of frames. Hues have equal lightness in OKLCH, so that no package shouts; three close shades of each keep
// neighbours apart. Code has a hue, the standard library is blue-grey and the runtime grey, so real code stands out.
import { origin, type Kind } from './names';
import { hashText, type Flame } from './model';

export type Theme = 'dark' | 'light';

export interface Palette {
  code: string[]; // three shades a hue
  library: string[];
  runtime: string[];
  text: string; // on all of the above
  dust: string; // bars too narrow to tell apart, and the callers of a zoomed frame
  dustText: string;
}

const HUES = [38, 62, 88, 125, 155, 185, 215, 292, 325, 10];
const LIBRARY_HUES = [245, 262, 228];
const SHADES = 3, SHADE_STEP = 0.028;
/** So many of the heaviest packages never share a hue. */
const DISTINCT = 8;
const LEGEND = 5;

/** OKLCH to sRGB: Björn Ottosson, "A perceptual color space for image processing". */
function oklch(lightness: number, chroma: number, hue: number): string {
  const a = chroma * Math.cos((hue * Math.PI) / 180), b = chroma * Math.sin((hue * Math.PI) / 180);
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  const linear = [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ];
  const channel = (v: number) => {
    const c = v <= 0.0031308 ? 12.92 * v : 1.055 * v ** (1 / 2.4) - 0.055;
    return Math.round(Math.min(1, Math.max(0, c)) * 255).toString(16).padStart(2, '0');
  };
  return '#' + linear.map(channel).join('');
}

function makePalette(theme: Theme): Palette {
  const dark = theme === 'dark';
  const shades = (lightness: number, chroma: number, hue: number) =>
    [0, SHADE_STEP, -SHADE_STEP].map((d) => oklch(lightness + d, chroma, hue));
  return {
    code: HUES.flatMap((h) => shades(dark ? 0.755 : 0.845, dark ? 0.105 : 0.095, h)),
    library: LIBRARY_HUES.flatMap((h) => shades(dark ? 0.7 : 0.86, dark ? 0.05 : 0.045, h)),
    runtime: shades(dark ? 0.64 : 0.88, 0.012, 260),
    text: '#12151a',
    dust: dark ? '#323a45' : '#dde2e8',
    dustText: dark ? '#a3adba' : '#525c69',
  };
}

export const PALETTES: Record<Theme, Palette> = { dark: makePalette('dark'), light: makePalette('light') };

export interface LegendEntry { text: string; color: string }

/** All that the renderer and the page need to know of colours. */
export interface Paint {
  palette: Palette;
  styles: string[];
  rest: number; // the style of cut-off frames, which is drawn hatched; -1 if there are none
  ofName: Uint16Array; // name -> style
  legend: LegendEntry[]; // the origins with most self time
}

const GROUPS: Record<Kind, (pkg: string) => string> = {
  code: (pkg) => pkg,
  library: () => 'standard library',
  runtime: () => 'runtime',
  rest: () => '',
};

/** The hue of each package: the one its name hashes to, except where two of the heaviest meet. */
function pickHues(weights: Map<string, number>): (pkg: string) => number {
  const moved = new Map<string, number>(), taken = new Set<number>();
  const heaviest = [...weights].sort((a, b) => b[1] - a[1]).slice(0, DISTINCT);
  for (const [pkg] of heaviest) {
    let hue = hashText(pkg) % HUES.length;
    while (taken.has(hue)) hue = (hue + 3) % HUES.length; // 3 and 10 share no factor: all hues are tried
    taken.add(hue);
    moved.set(pkg, hue);
  }
  return (pkg) => moved.get(pkg) ?? hashText(pkg) % HUES.length;
}

export function makePaint(f: Flame, theme: Theme): Paint {
  const palette = PALETTES[theme], origins = f.names.map(origin);
  const packages = new Map<string, number>(), groups = new Map<string, number>();
  const add = (m: Map<string, number>, key: string, v: number) => key && m.set(key, (m.get(key) ?? 0) + v);
  for (let i = 0; i < f.count; i++) {
    const o = origins[f.name[i]];
    if (o.kind === 'code') add(packages, o.package, f.self[i]);
    add(groups, GROUPS[o.kind](o.package), f.self[i]);
  }
  const hueOf = pickHues(packages);
  const color = (name: string, kind: Kind, pkg: string): string => {
    const shade = hashText(name) % SHADES;
    if (kind === 'code') return palette.code[hueOf(pkg) * SHADES + shade];
    if (kind === 'library') return palette.library[(hashText(pkg.split('/')[0]) % LIBRARY_HUES.length) * SHADES + shade];
    return palette.runtime[kind === 'rest' ? 0 : shade];
  };
  const styles: string[] = [], styleOf = new Map<string, number>(), ofName = new Uint16Array(f.names.length);
  let rest = -1;
  origins.forEach((o, i) => {
    const c = color(f.names[i], o.kind, o.package), key = o.kind === 'rest' ? 'rest' : c;
    if (!styleOf.has(key)) {
      styleOf.set(key, styles.length);
      styles.push(c);
    }
    ofName[i] = styleOf.get(key)!;
    if (o.kind === 'rest') rest = ofName[i];
  });
  const swatch = (group: string): string => {
    if (group === GROUPS.runtime('')) return palette.runtime[0];
    return group === GROUPS.library('') ? palette.library[0] : palette.code[hueOf(group) * SHADES];
  };
  const legend = [...groups].filter(([, v]) => v > 0).sort((a, b) => b[1] - a[1]).slice(0, LEGEND)
    .map(([group]) => ({ text: group.replace(/^github\.com\//, ''), color: swatch(group) }));
  return { palette, styles, rest, ofName, legend };
}
