/** Addresses of servers as texts, errors and logs show them: one or several, without users, passwords and tokens. */
export function shownAddresses(addresses: string | readonly string[]): string {
  // A comma may be one of a password, so only one before a scheme is known to part addresses.
  const each = [addresses]
    .flat()
    .join(",")
    .split(/,(?=[a-z][a-z\d+.-]*:\/\/)/i);
  return each.map(withoutSecrets).join(",");
}

/**
 * A password may have an `@`, `/` or `?` as it is, so everything before the last `@` goes, and the values of a query.
 * If that `@` may be one of a query's value, nothing shows where the value ends: all goes.
 */
function withoutSecrets(address: string): string {
  const [, scheme = "", rest = ""] = /^([a-z][a-z\d+.-]*:\/\/)?(.*)$/is.exec(address)!;
  const at = rest.lastIndexOf("@");
  if (/\?.*=/s.test(rest.slice(0, Math.max(0, at)))) return `${scheme}***`;
  const anonymous = at === -1 ? rest : `***${rest.slice(at)}`;
  return scheme + anonymous.replace(/(?<=\?).*$/s, (query) => query.split("&").map(parameterWithoutValue).join("&"));
}

const parameterWithoutValue = (parameter: string): string => parameter.replace(/^([^=]*=)?.+$/s, "$1***");
