/** A template of a time: relative, with the exact one on hover. `at` and `now` are expressions of seconds since 1970. */
export function timePiece(at: string, now: string): string {
  return `<% { const at = ${at}, past = ${now} - at, away = Math.abs(past)
const exact = new Date(at * 1000).toISOString().replace('.000Z', 'Z')
const [length, unit] = away < 3600 ? [60, 'minute'] : away < 86400 ? [3600, 'hour'] : [86400, 'day']
const count = Math.floor(away / length), words = count + ' ' + unit + (count === 1 ? '' : 's') %>
<time datetime="<%= exact %>" title="<%= exact %>"><%= away < 60 ? 'just now' : past > 0 ? words + ' ago' : 'in ' + words %></time><% } %>`;
}
