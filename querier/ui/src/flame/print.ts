// The pictures on screen as a file, PNG or SVG: the same renderer draws all rows of what can be seen now, with its zoom,
// colours, theme and search, below lines that say what it is. Names are anybody's: in SVG they are escaped.
import type { Drawing } from './draw';
import { xml } from './report';
import { FlameView } from './view';

const LINE = 20, PAD = 12, FONT = '500 13px "Inter Variable", system-ui, sans-serif';

/** What the renderer calls of a canvas, written down as SVG. Widths of text are fixed, whatever font there is. */
class Svg implements Drawing {
  readonly out: string[] = [];
  fillStyle: string | CanvasGradient | CanvasPattern = '';
  font = '';
  textBaseline: CanvasTextBaseline = 'middle';
  private rect = '';
  private readonly ruler = document.createElement('canvas').getContext('2d')!;

  setTransform(): void {}
  clearRect(): void {}
  beginPath(): void {}
  measureText(text: string): TextMetrics {
    this.ruler.font = this.font;
    return this.ruler.measureText(text);
  }
  /** Whatever is repeated: its tile is written down once. */
  createPattern(tile: CanvasImageSource): CanvasPattern | null {
    this.out.push(`<pattern id="cut" width="8" height="8" patternUnits="userSpaceOnUse"><image width="8" height="8" href="${(tile as HTMLCanvasElement).toDataURL()}"/></pattern>`);
    return this.ruler.createPattern(tile, 'repeat');
  }
  roundRect(x: number, y: number, w: number, h: number, r?: number): void {
    const [a, b, c, d] = [x, y, w, h].map((v) => v.toFixed(2));
    this.rect = `<rect x="${a}" y="${b}" width="${c}" height="${d}"${r ? ` rx="${r}"` : ''} fill="${typeof this.fillStyle === 'string' ? this.fillStyle : 'url(#cut)'}"/>`;
  }
  fill(): void {
    this.out.push(this.rect);
  }
  fillRect(x: number, y: number, w: number, h: number): void {
    this.roundRect(x, y, w, h);
    this.fill();
  }
  fillText(text: string, x: number, y: number): void {
    this.out.push(`<text x="${x.toFixed(2)}" y="${y + 4}" fill="${String(this.fillStyle)}" textLength="${this.measureText(text).width.toFixed(2)}">${xml(text)}</text>`);
  }
}

/** Paper and ink of the page, and where each picture goes. */
function layout(lines: string[]) {
  const { backgroundColor: paper, color: ink } = getComputedStyle(document.querySelector('.card.work')!);
  let height = 2 * PAD + lines.length * LINE, width = 0;
  const parts = FlameView.pictures().map((print) => {
    const y = height;
    height += print.height + PAD;
    width = Math.max(width, print.width);
    return { print, y };
  });
  return { paper, ink, parts, width: width + 2 * PAD, height };
}

export function svgOf(lines: string[]): string {
  const { paper, ink, parts, width, height } = layout(lines);
  const drawn = parts.map(({ print, y }) => {
    const svg = new Svg();
    print.draw(svg);
    return `<g transform="translate(${PAD} ${y})">${svg.out.join('\n')}</g>`;
  });
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="Inter, system-ui, sans-serif" font-size="11.5" font-weight="500">`,
    `<title>${xml(lines.join(' · '))}</title><rect width="100%" height="100%" fill="${paper}"/>`,
    ...lines.map((line, i) => `<text x="${PAD}" y="${PAD + (i + 0.7) * LINE}" fill="${ink}" font-size="13">${xml(line)}</text>`),
    ...drawn, '</svg>\n',
  ].join('\n');
}

export function pngOf(lines: string[]): Promise<Blob | null> {
  const { paper, ink, parts, width, height } = layout(lines), canvas = document.createElement('canvas'), ctx = canvas.getContext('2d')!;
  canvas.width = Math.round(width * devicePixelRatio);
  canvas.height = Math.round(height * devicePixelRatio);
  ctx.scale(devicePixelRatio, devicePixelRatio);
  ctx.fillStyle = paper;
  ctx.fillRect(0, 0, width, height);
  ctx.fillStyle = ink;
  ctx.font = FONT;
  lines.forEach((line, i) => ctx.fillText(line, PAD, PAD + (i + 0.7) * LINE));
  for (const { print, y } of parts) ctx.drawImage(print.draw(), PAD, y, print.width, print.height);
  return new Promise((done) => canvas.toBlob(done));
}
