/** Settings of this computer's network: proxies and certificates. */
export type NetworkSettings = {
  /** The environment, for `HTTPS_PROXY` and similar variables. */
  env: Readonly<Record<string, string | undefined>>;
  /** A proxy for all requests, including loopback; `none` for no proxy. Takes precedence over the environment. */
  proxy?: string;
  /** PEM or DER: authorities to trust besides Node's and the system's. */
  caFile?: string;
  /** PEM: our client certificate. */
  clientCertificateFile?: string;
  clientKeyFile?: string;
  clientKeyPassphraseSecret?: string;
};

/** The environment variables for each scheme. The first one that is set is used. */
export const proxyVariables = {
  'https:': ['https_proxy', 'HTTPS_PROXY', 'all_proxy', 'ALL_PROXY'],
  'http:': ['http_proxy', 'HTTP_PROXY', 'all_proxy', 'ALL_PROXY'],
};

/** Whether any proxy is configured. Called for each request, so it checks names only. */
export function namesProxy({ env, proxy }: NetworkSettings): boolean {
  const names = Object.values(proxyVariables).flat();
  return proxy !== undefined || names.some((name) => env[name]);
}
