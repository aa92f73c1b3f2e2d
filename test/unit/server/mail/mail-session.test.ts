import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { composeMail } from '#server/mail/compose-mail';
import { openMailSession } from '#server/mail/mail-session';
import { authority, type Certificate } from '#support/certificates';
import { smtpServer, type SmtpServer } from '#support/smtp-server';

const guard = {
  allowedHosts: ['127.0.0.1'],
  resolve: () => Promise.reject(new Error('no test resolves a name')),
};
const password = 'correct  horse battery';

let before: string[];
let certificate: Certificate;
beforeAll(async () => {
  before = getCACertificates('default');
  const trusted = await authority();
  certificate = await trusted.issue('127.0.0.1');
  setDefaultCACertificates([...before, trusted.cert]);
});
afterAll(() => setDefaultCACertificates(before));

type Settings = Parameters<typeof openMailSession>[0];

const settings = ({ port }: SmtpServer, but: Partial<Settings> = {}): Settings => ({
  host: '127.0.0.1',
  port,
  security: 'none',
  user: undefined,
  sealedPassword: undefined,
  from: 'latchkey@example.com',
  password: undefined,
  ...but,
});
const open = (server: SmtpServer, but: Partial<Settings> = {}) =>
  openMailSession(settings(server, but), { guard, name: 'latchkey.example.com' });

async function mail(to: string, but: { subject?: string; fromName?: string; text?: string } = {}) {
  const { subject = 'Hello', fromName = 'Acme', text = 'First line\n.second' } = but;
  const from = 'latchkey@example.com';
  const envelope = { id: 'mail_1', from, fromName, to, at: 1_800_000_000 };
  return { from, to, message: await composeMail(envelope, { subject, text }) };
}

describe('mail session', () => {
  test('a mail arrives as plain text, with headers that say who sent it', async () => {
    await using server = await smtpServer();
    const session = await open(server);

    const result = await session.send(await mail('zoe@example.com'));
    session.close();

    expect(result).toEqual({ outcome: 'sent', words: 'answered “250 2.0.0 Ok: queued as 4F1”' });
    expect(server.greetings).toEqual(['latchkey.example.com']);
    const [received] = server.mails;
    expect(received).toMatchObject({ from: 'latchkey@example.com', to: 'zoe@example.com' });
    expect(received?.text).toBe('First line\n.second');
    expect(Object.fromEntries(received?.headers ?? [])).toMatchObject({
      from: 'Acme <latchkey@example.com>',
      to: 'zoe@example.com',
      subject: 'Hello',
      'message-id': '<mail_1@example.com>',
      date: 'Fri, 15 Jan 2027 08:00:00 +0000',
      'auto-submitted': 'auto-generated',
      'content-type': 'text/plain; charset=utf-8',
    });
    expect(received?.headers.has('x-mailer')).toBe(false);
  });

  test.each([
    ['a line break', 'Hi\r\nBcc: eve@example.com'],
    ['a line separator', 'Hi\u2028Bcc: eve@example.com'],
    ['a bare line feed', 'Hi\nBcc: eve@example.com'],
  ])('%s in a name or subject adds no header', async (_, text) => {
    await using server = await smtpServer();
    const session = await open(server);

    await session.send(await mail('zoe@example.com', { subject: text, fromName: text }));
    session.close();

    const [received] = server.mails;
    expect(received?.headers.has('bcc')).toBe(false);
    expect(received?.headers.get('subject')).toBe('Hi Bcc: eve@example.com');
  });

  test('STARTTLS encrypts the connection before the password is sent', async () => {
    const account = { user: 'latchkey', password };
    await using server = await smtpServer({ certificate, account });
    const session = await open(server, { security: 'starttls', user: 'latchkey', password });

    await session.send(await mail('zoe@example.com'));
    session.close();

    expect(server.mails).toMatchObject([{ isEncrypted: true, user: 'latchkey' }]);
  });

  test('TLS from the start encrypts the connection', async () => {
    await using server = await smtpServer({ certificate, isImplicit: true });
    const session = await open(server, { security: 'tls' });

    await session.send(await mail('zoe@example.com'));
    session.close();

    expect(server.mails).toMatchObject([{ isEncrypted: true }]);
  });

  test('a server without STARTTLS gets neither password nor mail', async () => {
    const account = { user: 'latchkey', password };
    await using server = await smtpServer({ account });

    const opening = open(server, { security: 'starttls', user: 'latchkey', password });

    await expect(opening).rejects.toThrow(/^answered “502 5\.5\.1 Not offered”$/);
    expect(server.mails).toEqual([]);
  });

  test('a certificate that no authority vouches for is refused, and the error says so', async () => {
    const foreign = await (await authority('Foreign')).issue('127.0.0.1');
    await using server = await smtpServer({ certificate: foreign });

    const opening = open(server, { security: 'starttls' });

    await expect(opening).rejects.toThrow(/^has a certificate that is not valid \([A-Z_]+\)$/);
  });

  test('a wrong password is refused in the words of the server, without the password', async () => {
    const account = { user: 'latchkey', password: 'another' };
    await using server = await smtpServer({ certificate, account });
    server.script((step, sent) =>
      step === 'auth'
        ? `535 5.7.8 No: ${sent} ${Buffer.from(password).toString('base64')} ${password}`
        : undefined,
    );

    const opening = open(server, { security: 'starttls', user: 'latchkey', password });

    await expect(opening).rejects.toThrow(
      'answered “535 5.7.8 No: [redacted] [redacted] [redacted]”',
    );
  });

  test('a refused recipient leaves the connection open for the next mail', async () => {
    await using server = await smtpServer();
    server.script((step, to) => {
      if (step !== 'rcpt') return undefined;
      if (to.startsWith('gone')) return '550 5.1.1 No such user';
      return to.startsWith('busy') ? '451 4.7.1 Greylisted' : undefined;
    });
    const session = await open(server);

    const results = [];
    for (const to of ['gone@x.org', 'busy@x.org', 'zoe@x.org']) {
      results.push(await session.send(await mail(to)));
    }
    session.close();

    expect(results.map(({ outcome }) => outcome)).toEqual(['refused', 'later', 'sent']);
    expect(results[0]?.words).toBe('answered “550 5.1.1 No such user”');
    expect(server.connections).toBe(1);
  });

  test('a connection that breaks after the mail is an error, since it is unknown whether it was accepted', async () => {
    await using server = await smtpServer();
    server.script((step) => (step === 'data' ? 'cut' : undefined));
    const session = await open(server);

    const sending = session.send(await mail('zoe@example.com'));

    await expect(sending).rejects.toThrow('ended the connection');
    expect(server.mails).toHaveLength(1);
  });

  test('a server that says goodbye is an error of the server, not of the mail', async () => {
    await using server = await smtpServer();
    server.script((step) => (step === 'rcpt' ? '421 4.3.2 Shutting down' : undefined));
    const session = await open(server);

    const sending = session.send(await mail('zoe@example.com'));

    await expect(sending).rejects.toThrow('answered “421 4.3.2 Shutting down”');
  });

  test('an answer that is long or contains control characters is quoted on one line', async () => {
    await using server = await smtpServer();
    server.script((step) =>
      step === 'rcpt' ? `550 a\u0007b\u202e c ${'x'.repeat(500)}` : undefined,
    );
    const session = await open(server);

    const { words } = await session.send(await mail('zoe@example.com'));
    session.close();

    expect(words).toMatch(/^answered “550 a b[\s\S]{0,8}c x+…”$/);
    expect(words.length).toBeLessThan(330);
  });

  test.each([
    ['10.0.0.1', 'is not on the public internet'],
    ['169.254.169.254', 'is not on the public internet'],
    ['localhost', 'is not on the public internet'],
  ])('%s is not asked unless the operator allows it', async (host, words) => {
    await using server = await smtpServer();

    const opening = open(server, { host, security: 'starttls' });

    await expect(opening).rejects.toThrow(words);
    expect(server.connections).toBe(0);
  });

  test('no mail is sent unencrypted to a host that the operator did not name', async () => {
    await using server = await smtpServer();

    const opening = open(server, { host: '8.8.8.8', security: 'none' });

    await expect(opening).rejects.toThrow('must be encrypted');
  });

  test('a port without a server is unreachable', async () => {
    const closed = await smtpServer();
    await closed[Symbol.asyncDispose]();

    await expect(open(closed)).rejects.toThrow(/^could not be reached$/);
  });
});
