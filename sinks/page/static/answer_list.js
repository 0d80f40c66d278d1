/** The list of answers that the reader came from: an answer's neighbours, and the way back to the same place. */

let list = null;

/** @param {string} key the filters of the list @param {object} data its answers and the cursor of the next page */
export function remember(key, data) {
  list = { key, data, isLeft: false, scroll: 0 };
}

/** Notes that the reader opened an answer: going back shows this list again, not a new one. */
export function leave() {
  if (list && !list.isLeft) Object.assign(list, { isLeft: true });
}

/** Returns the list if the reader comes back to it. */
export function comeBack(key) {
  return list?.isLeft && list.key === key ? list.data : null;
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
