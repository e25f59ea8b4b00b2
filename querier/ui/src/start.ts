// start.txt: the ways to send profiles, ready to paste.

export interface Way { name: string; about: string; code: string[] }

/** Its parts, with the address of the server in them. */
export function readWays(text: string, server: string): Way[] {
  return text.replaceAll('{{server}}', server).split(/^## /m).slice(1).map((part) => {
    const [name, ...lines] = part.trimEnd().split('\n'), said = (l: string) => l.startsWith('> ');
    return { name, about: lines.filter(said).map((l) => l.slice(2)).join(' '), code: lines.filter((l) => !said(l)).join('\n').split('\n--\n') };
  });
}
