/** The list of answers that the reader came from: an answer's neighbours, and the way back to the same place. */

let list = null;

/** @param {string} key the filters of the list @param {object} data its answers and the cursor of the next page */
export function remember(key, data) {
  list = { key, data, opened: null };
}

/** Notes that the reader opened an answer: going back shows this list again, not a new one. */
export function leaveFor(id) {
  if (list) list.opened = id;
}

/** Returns the list if the reader comes back to it. */
export function comeBack(key) {
  return list?.opened && list.key === key ? list.data : null;
}

/** Returns the answer that the reader comes back from, once. */
export function takeOpened() {
  const opened = list?.opened ?? null;
  if (list) list.opened = null;
  return opened;
}

/** Returns the ids before and after an answer in the list; undefined if it is not in there. */
export function neighboursOf(id) {
  const answers = list?.data.answers ?? [];
  const place = answers.findIndex((answer) => answer.id === id);
  if (place < 0) return undefined;
  return {
    previous: answers[place - 1]?.id ?? null,
    next: answers[place + 1]?.id ?? null,
    place: place + 1,
    total: answers.length,
  };
}
