/** Sign-in with a token. */

import * as api from "../api.js";
import { empty } from "../components.js";
import { h } from "../dom.js";
import * as format from "../format.js";

let problem = null;

export const signIn = {
  name: "sign-in",
  title: "Sign in",
  load: async () => ({}),
  // With a note there are no tokens, and no way to sign in.
  view: (_data, context) =>
    context.session.note ? empty("The page is closed", format.sentence(context.session.note)) : form(context),
  drawn: (main) => {
    if (document.activeElement === document.body) main.querySelector("input")?.focus();
  },
};

function form(context) {
  return h(
    "form",
    { class: "sign-in", on: { submit: (event) => submit(event, context) } },
    h("h1", {}, "Sign in"),
    h(
      "p",
      { class: "muted" },
      "Enter a token from http.tokens in the configuration. The role of the token determines what you can do.",
    ),
    h(
      "label",
      { class: "field" },
      h("span", {}, "Token"),
      h("input", {
        type: "password",
        name: "token",
        autocomplete: "current-password",
        required: true,
        autofocus: true,
      }),
    ),
    problem ? h("p", { class: "error", role: "alert" }, problem) : null,
    h("button", { class: "primary", type: "submit" }, "Sign in"),
  );
}

async function submit(event, context) {
  event.preventDefault();
  const field = event.target.querySelector("input");
  try {
    await api.post("/api/session", { token: field.value });
    problem = null;
    field.value = "";
    context.restart();
  } catch (error) {
    problem = error.message;
    context.redraw();
    field.select();
  }
}
