/** The right that a restart needs, in words. */
import type { FeedHello } from "../src/feed.ts";

export function RestartRight({ access }: { access: FeedHello["restart"] }) {
  if (access === "key")
    return (
      <>
        Restarting needs an administrator's key: <code>tutti auth key add &lt;name&gt; --admin</code> makes one and
        shows it once.
      </>
    );
  if (access === "token")
    return (
      <>
        Restarting needs the admin token: the content of the file that this gateway was started with,{" "}
        <code>--admin-token &lt;file&gt;</code>.
      </>
    );
  return (
    <>
      Restarting needs an admin token, and, where a gateway is started by itself, an operator's NATS credentials; this
      gateway lacks one of them. Start it with <code>npm start -- --admin-token &lt;file&gt;</code>, where{" "}
      <code>openssl rand -hex 32 &gt; &lt;file&gt;</code> makes the token; a gateway by itself needs{" "}
      <code>--repository-creds</code> too. <code>tutti restart</code> needs neither.
    </>
  );
}
