/**
 * The beginning of a text, as a copy that stands alone. V8 makes a substring a view of the text that it was cut from,
 * so an id from a message would keep all the message's headers, or its body, in memory for as long as the id is kept.
 */
export const keptText = (text: string, lengthMax: number): string => Buffer.from(text.slice(0, lengthMax)).toString();
