// The pictures on screen as a file, PNG or SVG: the same renderer draws all rows of what can be seen now, with its zoom,
// colours, theme and search, below lines that say what it is. Names are anybody's: in SVG they are escaped.
import type { Drawing } from './draw';
import { xml } from './report';
import { FlameView } from './view';

const LINE = 20, PAD = 12, LETTER = 7, FONT = '13px "Inter Variable", system-ui, sans-serif';

/** A canvas that writes SVG. Widths of text are fixed, whatever font the viewer has. */
class Svg implements Drawing {
  readonly out: string[] = [];
  fillStyle: string | CanvasGradient | CanvasPattern = '';
  font = '';
  textBaseline: CanvasTextBaseline = 'middle';
  private rect = '';
  private readonly patterns: CanvasPattern[] = []; // by the number in their ids
  private readonly ruler = document.createElement('canvas').getContext('2d')!;

  setTransform(scale: number, _b: number, _c: number, _d: number, x: number, y: number): void {
    this.out.push(`</g><g transform="translate(${x / scale} ${y / scale})">`);
  }
  clearRect(): void {}
  beginPath(): void {}
  measureText(text: string): TextMetrics {
    this.ruler.font = this.font;
    return this.ruler.measureText(text);
  }
  /** Whatever is repeated: its tile is written down once. */
  createPattern(tile: CanvasImageSource): CanvasPattern | null {
    this.out.push(`<pattern id="tile${this.patterns.length}" width="8" height="8" patternUnits="userSpaceOnUse"><image width="8" height="8" href="${(tile as HTMLCanvasElement).toDataURL()}"/></pattern>`);
    const pattern = this.ruler.createPattern(tile, 'repeat')!;
    this.patterns.push(pattern);
    return pattern;
  }
  roundRect(x: number, y: number, w: number, h: number, r?: number): void {
    const [a, b, c, d] = [x, y, w, h].map((v) => v.toFixed(2));
    this.rect = `<rect x="${a}" y="${b}" width="${c}" height="${d}"${r ? ` rx="${r}"` : ''} fill="${typeof this.fillStyle === 'string' ? this.fillStyle : `url(#tile${this.patterns.indexOf(this.fillStyle as CanvasPattern)})`}"/>`;
  }
  fill(): void {
    this.out.push(this.rect);
  }
  fillRect(x: number, y: number, w: number, h: number): void {
    this.roundRect(x, y, w, h);
    this.fill();
  }
  fillText(text: string, x: number, y: number): void {
    this.out.push(`<text x="${x.toFixed(2)}" y="${(y + 4).toFixed(2)}" fill="${String(this.fillStyle)}" font-size="${/[\d.]+px/.exec(this.font)}" textLength="${this.measureText(text).width.toFixed(2)}">${xml(text)}</text>`);
  }
}

/** Draws all of it on something of the right size, which `begin` makes. */
function compose(about: string[], begin: (width: number, height: number, paper: string) => Drawing): void {
  const { backgroundColor, color } = getComputedStyle(document.querySelector('.card.work')!), prints = FlameView.pictures();
  const deeper = Math.max(...prints.map((p) => p.deeper)), lines = deeper > 0 ? [...about, `the deepest ${deeper} levels are left out`] : about;
  let y = 2 * PAD + lines.length * LINE;
  const on = begin(Math.max(...prints.map((p) => p.width), ...lines.map((l) => l.length * LETTER)) + 2 * PAD, prints.reduce((sum, p) => sum + p.height + PAD, y), backgroundColor);
  on.fillStyle = color;
  on.font = FONT;
  on.textBaseline = 'middle';
  lines.forEach((line, i) => on.fillText(line, PAD, PAD + (i + 0.5) * LINE));
  for (const print of prints) {
    print.draw(on, PAD, y);
    y += print.height + PAD;
  }
}

export function svgOf(lines: string[]): string {
  const svg = new Svg();
  compose(lines, (width, height, paper) => {
    svg.out.push(
      `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="Inter, system-ui, sans-serif" font-weight="500">`,
      `<title>${xml(lines.join(' · '))}</title><rect width="100%" height="100%" fill="${paper}"/><g>`);
    return svg;
  });
  return `${svg.out.join('\n')}</g></svg>\n`;
}

export function pngOf(lines: string[]): Promise<Blob | null> {
  const canvas = document.createElement('canvas'), ctx = canvas.getContext('2d')!;
  let behind = '';
  compose(lines, (width, height, paper) => {
    behind = paper;
    canvas.width = Math.round(width * devicePixelRatio);
    canvas.height = Math.round(height * devicePixelRatio);
    ctx.scale(devicePixelRatio, devicePixelRatio);
    return ctx;
  });
  ctx.resetTransform();
  ctx.globalCompositeOperation = 'destination-over'; // the pictures clear their places
  ctx.fillStyle = behind;
  ctx.fillRect(0, 0, canvas.width, canvas.height);
  return new Promise((done) => canvas.toBlob(done));
}
