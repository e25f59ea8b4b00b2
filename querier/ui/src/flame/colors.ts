// Colours of frames. Hues have equal lightness in OKLCH, so that no package shouts; three close shades of each keep
// neighbours apart. Code has a hue, the standard library is blue-grey and the runtime grey, so real code stands out.
import { origin, type Kind } from './names';
import { hashText, ROOT, share, type Flame } from './model';
import { changeBy, scaleText, type Norm } from './norm';

export type Theme = 'dark' | 'light';
/** What the colour of a frame tells. In a comparison it always tells the change. */
export type ColorBy = 'package' | 'function' | 'self';
/** `safe` is told apart by everyone; green and red are nearly one colour to every twelfth man. */
export type DiffPalette = 'safe' | 'classic';

export interface Palette {
  code: string[]; // three shades a hue
  library: string[];
  runtime: string[];
  text: string; // on all of the above
  dust: string; // bars too narrow to tell apart, and the callers of a zoomed frame
  dustText: string;
  hit: string; // grey frames that a search found
  mark: string; // below all that a search found
}

const HUES = [38, 62, 88, 125, 155, 185, 215, 292, 325, 10];
const LIBRARY_HUES = [245, 262, 228];
const SHADES = 3, SHADE_STEP = 0.028;
/** So many of the heaviest packages never share a hue. */
const DISTINCT = 8;
const LEGEND = 5;
/** Shares of self from which a frame has the strongest colour, and changes of a share; smaller ones go by the root. */
const HOT = 0.1, LOUD = 0.25, UNCHANGED = 0.0005;
const HEAT_STEPS = 8, DIFF_STEPS = 11;

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
    hit: dark ? '#f2c14a' : '#ffd24d',
    mark: dark ? '#ff8552' : '#c8431a',
  };
}

export const PALETTES: Record<Theme, Palette> = { dark: makePalette('dark'), light: makePalette('light') };

export interface LegendEntry { text: string; color: string }

/** All that the renderer and the page need to know of colours. */
export interface Paint {
  palette: Palette;
  styles: string[];
  rest: number; // the style of cut-off frames, which is drawn hatched; -1 if there are none
  ofName: Uint16Array; // name -> style, where names have colours
  styleOf: (f: Flame, frame: number) => number;
  legend: LegendEntry[]; // the origins with most self time
  scale: { from: string; to: string; colors: string[] } | null; // the meaning of colours that are a measure
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

/** One grey, then from pale to strong. */
export function heatScale(theme: Theme): string[] {
  const dark = theme === 'dark';
  return Array.from({ length: HEAT_STEPS + 1 }, (_, i) => {
    const t = i / HEAT_STEPS;
    return i === 0 ? oklch(dark ? 0.62 : 0.92, 0.008, 260) : oklch(dark ? 0.66 + 0.07 * t : 0.92 - 0.17 * t, 0.02 + 0.13 * t, 75 - 35 * t);
  });
}

/** From much less over grey to much more. */
export function diffScale(theme: Theme, palette: DiffPalette): string[] {
  const dark = theme === 'dark', less = palette === 'safe' ? 248 : 150, more = palette === 'safe' ? 52 : 25;
  return Array.from({ length: 2 * DIFF_STEPS + 1 }, (_, k) => {
    const i = k - DIFF_STEPS, t = Math.abs(i) / DIFF_STEPS;
    if (i === 0) return oklch(dark ? 0.62 : 0.91, 0.006, 260);
    return oklch(dark ? 0.64 + 0.1 * t : 0.91 - 0.17 * t, 0.02 + (dark ? 0.135 : 0.14) * t, i < 0 ? less : more);
  });
}

/** The step of diffScale for a change of share, in parts of 1. */
export function diffStep(change: number): number {
  if (Math.abs(change) < UNCHANGED) return DIFF_STEPS;
  const t = Math.min(1, Math.sqrt(Math.abs(change) / LOUD));
  return DIFF_STEPS + Math.sign(change) * Math.max(1, Math.round(t * DIFF_STEPS));
}

/** Colours by a number that each frame has. Cut-off frames stay hatched. */
function paintMeasure(f: Flame, palette: Palette, scale: NonNullable<Paint['scale']>, stepOf: (f: Flame, frame: number) => number): Paint {
  const rest = f.names.some((n) => origin(n).kind === 'rest') ? scale.colors.length : -1;
  const isRest = Uint8Array.from(f.names, (n) => (origin(n).kind === 'rest' ? 1 : 0));
  const styles = rest < 0 ? scale.colors : [...scale.colors, palette.runtime[0]];
  return {
    palette, styles, rest, ofName: new Uint16Array(f.names.length), legend: [], scale,
    styleOf: (of, i) => (isRest[of.name[i]] ? rest : stepOf(of, i)),
  };
}

/** With an empty side all is grey, and a scale without ends says nothing. */
export function paintChange(f: Flame, theme: Theme, palette: DiffPalette, norm: Norm): Paint {
  const end = scaleText(norm, f, LOUD), scale = { from: norm.empty ? '' : `−${end}`, to: `+${end}`, colors: diffScale(theme, palette) };
  return paintMeasure(f, PALETTES[theme], scale, (of, i) => diffStep(changeBy(norm, of.total[i], of.right!.total[i])));
}

function paintSelf(f: Flame, theme: Theme): Paint {
  const scale = { from: 'self 0 %', to: '10 %', colors: heatScale(theme) }, whole = f.total[ROOT];
  const stepOf = (of: Flame, i: number) => {
    const part = share(of.self[i], whole);
    return part === 0 ? 0 : Math.max(1, Math.round(Math.min(1, Math.sqrt(part / HOT)) * HEAT_STEPS));
  };
  return paintMeasure(f, PALETTES[theme], scale, stepOf);
}

function paintNames(f: Flame, theme: Theme, by: 'package' | 'function'): Paint {
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
    const hash = hashText(name), shade = hash % SHADES;
    if (kind !== 'rest' && by === 'function') return palette.code[hash % palette.code.length];
    if (kind === 'code') return palette.code[hueOf(pkg) * SHADES + shade];
    if (kind === 'library') return palette.library[(hashText(pkg.split('/')[0]) % LIBRARY_HUES.length) * SHADES + shade];
    return palette.runtime[kind === 'rest' ? 0 : shade];
  };
  const styles: string[] = [], known = new Map<string, number>(), ofName = new Uint16Array(f.names.length);
  let rest = -1;
  origins.forEach((o, i) => {
    const c = color(f.names[i], o.kind, o.package), key = o.kind === 'rest' ? 'rest' : c;
    if (!known.has(key)) {
      known.set(key, styles.length);
      styles.push(c);
    }
    ofName[i] = known.get(key)!;
    if (o.kind === 'rest') rest = ofName[i];
  });
  const swatch = (group: string): string => {
    if (group === GROUPS.runtime('')) return palette.runtime[0];
    return group === GROUPS.library('') ? palette.library[0] : palette.code[hueOf(group) * SHADES];
  };
  const legend = by === 'function' ? [] : [...groups].filter(([, v]) => v > 0).sort((a, b) => b[1] - a[1]).slice(0, LEGEND)
    .map(([group]) => ({ text: group.replace(/^github\.com\//, ''), color: swatch(group) }));
  return { palette, styles, rest, ofName, legend, scale: null, styleOf: (of, i) => ofName[of.name[i]] };
}

/** Colours of a graph and of all that is made from it: order, sandwich and table share its names. */
export function makePaint(f: Flame, theme: Theme, by: ColorBy = 'package'): Paint {
  return by === 'self' ? paintSelf(f, theme) : paintNames(f, theme, by);
}
