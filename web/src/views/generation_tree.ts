import type { BeamNode, GenerateLine } from "../data/types";
import { visible } from "../data/words";
import { fitted, type Pen } from "../draw/pen";
import type { Sight } from "../draw/picture";
import type { Theme } from "../draw/theme";
import { percent } from "./common";

const kAcross = 104;
const kDown = 36;
const kMostRows = 10; // nodes drawn per step: the kept ones, then the most likely of the others

interface Placed {
  node: BeamNode;
  x: number;
  y: number;
  parent: Placed | null;
}

/** The tree of beam search: a column per step, with the kept hypotheses first and the most likely on top. */
export class BeamTree {
  readonly nodes = new Map<number, BeamNode>();
  placed: Placed[] = [];
  rows = 1;
  private found = new Map<number, Placed>();
  private depths = new Map<number, number>();
  private text: string | null = null;

  add(line: GenerateLine): void {
    for (const node of line.nodes ?? []) {
      this.nodes.set(node.id, node);
      this.depths.set(node.id, (this.depths.get(node.parent) ?? 0) + 1);
    }
    if (line.done) this.text = line.text ?? null;
    if (line.nodes) this.place(line.nodes);
  }

  depth(node: BeamNode): number {
    return this.depths.get(node.id) ?? 1;
  }

  path(node: BeamNode): BeamNode[] {
    const path: BeamNode[] = [];
    for (let at: BeamNode | undefined = node; at; at = this.nodes.get(at.parent)) path.unshift(at);
    return path;
  }

  /** The hypothesis that became the text; during generation, the most likely one so far. */
  best(): BeamNode[] {
    const depth = Math.max(0, ...this.depths.values());
    const ends = [...this.nodes.values()].filter((node) => node.kept && (node.finished || this.depth(node) === depth));
    const mean = (node: BeamNode) => node.logp / this.depth(node);
    const likeliest = (list: BeamNode[]) => list.reduce((a, b) => (mean(b) > mean(a) ? b : a));
    const written =
      this.text === null ? [] : ends.filter((end) => squeezed(this.written(end)) === squeezed(this.text!));
    if (written.length > 0) return this.path(likeliest(written));
    return ends.length ? this.path(likeliest(ends)) : [];
  }

  at(x: number, y: number): BeamNode | null {
    return (
      this.placed.find((one) => Math.abs(one.y - y) < kDown / 2 && x >= one.x - 8 && x < one.x + kAcross - 12)?.node ??
      null
    );
  }

  /** The node that an arrow key moves to. */
  neighbour(from: BeamNode, key: string): BeamNode | null {
    const here = this.found.get(from.id);
    if (!here) return null;
    const nearest = (list: Placed[]) =>
      list.reduce<Placed | null>(
        (best, one) => (!best || Math.abs(one.y - here.y) < Math.abs(best.y - here.y) ? one : best),
        null,
      )?.node ?? null;
    if (key === "ArrowLeft") return here.parent?.node ?? null;
    if (key === "ArrowRight") return nearest(this.placed.filter((one) => one.parent === here));
    if (key === "ArrowUp") return nearest(this.placed.filter((one) => one.x === here.x && one.y < here.y));
    if (key === "ArrowDown") return nearest(this.placed.filter((one) => one.x === here.x && one.y > here.y));
    return null;
  }

  private written(end: BeamNode): string {
    return this.path(end)
      .filter((node) => node.token.kind !== "special")
      .map((node) => node.token.text)
      .join("");
  }

  private place(step: BeamNode[]): void {
    const order = [...step].sort((a, b) => Number(b.kept) - Number(a.kept) || b.logp - a.logp).slice(0, kMostRows);
    order.forEach((node, row) => {
      const one = {
        node,
        x: (this.depth(node) - 1) * kAcross + 12,
        y: row * kDown + 22,
        parent: this.found.get(node.parent) ?? null,
      };
      this.found.set(node.id, one);
      this.placed.push(one);
    });
    this.rows = Math.max(this.rows, order.length);
  }
}

function squeezed(text: string): string {
  return text.replace(/\s+/g, "");
}

export function treeSize(tree: BeamTree, available: number): { width: number; height: number } {
  const depth = Math.max(1, ...[...tree.nodes.values()].map((node) => tree.depth(node)));
  return { width: Math.max(Math.min(available, 320), depth * kAcross + 20), height: tree.rows * kDown + 16 };
}

export function drawTree(pen: Pen, tree: BeamTree, sight: Sight, theme: Theme, chosen: BeamNode | null): void {
  const best = new Set(tree.best());
  const seen = tree.placed.filter((one) => one.x > sight.left - 2 * kAcross && one.x < sight.right + kAcross);
  for (const onBest of [false, true]) {
    const ends = seen
      .filter((one) => one.parent && best.has(one.node) === onBest)
      .flatMap((one) => [one.parent!.x + 5, one.parent!.y, one.x - 5, one.y]);
    pen.curves(ends, { colour: onBest ? theme.accent : theme.faint, width: onBest ? 2.5 : 1.2 });
  }
  for (const { node, x, y } of seen) {
    const colour = best.has(node) ? theme.accent : theme.soft;
    pen.circle(x, y, node === chosen ? 6 : 2.5 + 3 * Math.sqrt(node.p), {
      fill: node.kept ? colour : theme.paper,
      ...(node.kept ? {} : { stroke: theme.soft, width: 1.2 }),
      ...(node === chosen ? { stroke: theme.ink, width: 2 } : {}),
    });
    const text = fitted(visible(node.token.text) || "∅", kAcross - 34, { size: 14 });
    pen.text(text, x + 10, y - 4, {
      colour: node.kept ? theme.ink : theme.soft,
      size: 14,
      weight: best.has(node) ? 600 : 400,
      italic: node.token.kind === "special",
    });
    pen.text(percent(node.p), x + 10, y + 14, { colour: theme.soft, size: 11 });
  }
}
