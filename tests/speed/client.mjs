// The HTTP client of the load programs.
import http from "node:http";

/** A generator of numbers in [0, 1) that gives the same numbers for the same seed. */
export function random(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

/** Posts a text; onEvent gets each event of a stream, and the client hangs up when it returns false. Resolves to the
 * status (0: no response), the body that is left, and whether the response was complete. */
export function post(address, text, { agent, key, onEvent = () => {} } = {}) {
  return new Promise((done) => {
    const headers = { "Content-Type": "application/json", "Content-Length": Buffer.byteLength(text) };
    if (key) headers.Authorization = `Bearer ${key}`;
    const request = http.request(address, { method: "POST", agent, headers }, (answer) => {
      const isStream = answer.statusCode === 200 && answer.headers["content-type"].startsWith("text/event-stream");
      let rest = "";
      answer.setEncoding("utf8");
      answer.on("data", (piece) => {
        rest += piece;
        if (!isStream) return;
        for (let end = rest.indexOf("\n\n"); end >= 0; end = rest.indexOf("\n\n")) {
          const event = rest.slice(0, end);
          rest = rest.slice(end + 2);
          if (onEvent(event) === false) request.destroy();
        }
      });
      answer.on("close", () => done({ status: answer.statusCode, rest, isWhole: answer.complete }));
      answer.on("error", () => {});
    });
    request.on("error", (error) => done({ status: 0, rest: error.message, isWhole: false }));
    request.end(text);
  });
}
