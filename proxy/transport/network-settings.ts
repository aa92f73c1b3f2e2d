/** How this machine reaches the network, where that is not the ordinary way. */
export type NetworkSettings = {
  /** The environment, for `HTTPS_PROXY` and its kind, which a company sets for all programs. */
  env: Readonly<Record<string, string | undefined>>;
  /** A proxy for all there is, loopback included; `none` for none. Wins over the environment's. */
  proxy?: string;
  /** PEM or DER: authorities to be trusted besides Node's and the system's. */
  caFile?: string;
  /** PEM: whom we are for servers that ask by TLS. */
  clientCertificateFile?: string;
  clientKeyFile?: string;
  clientKeyPassphraseSecret?: string;
};
