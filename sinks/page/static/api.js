/** Requests to the server. A failure is an `ApiError` with a sentence for the reader. */

import { sentence } from "./format.js";
import { withQuery } from "./router.js";

let csrf = "";

export class ApiError extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

export const get = (path, params = {}, signal = undefined) => send(withQuery(path, params), { signal });

export const post = (path, body) => write("POST", path, body);
export const remove = (path) => write("DELETE", path);

/** Reads who we are, and the token that writing requests carry. */
export async function openSession() {
  const session = await get("/api/session");
  csrf = session.csrf;
  return session;
}

function write(method, path, body = undefined) {
  const headers = { "X-CSRF-Token": csrf };
  if (body === undefined) return send(path, { method, headers });
  return send(path, {
    method,
    headers: { ...headers, "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
}

async function send(path, options) {
  let reply;
  try {
    reply = await fetch(path, { credentials: "same-origin", cache: "no-store", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("The server does not answer. Check that streamjury is running.", 0);
  }
  const body = await reply.json().catch(() => null);
  if (reply.ok && body !== null) return body;
  if (reply.status === 204) return null;
  throw new ApiError(sentence(body?.error ?? `the server replied with status ${reply.status}`), reply.status);
}
