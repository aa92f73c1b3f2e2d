/** What stands around every page. */
export const layout = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title><%= it.title %> · Latchkey</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="<%= it.stylesheet %>">
<% for (const script of it.frame.scripts) { %>
<script type="module" src="<%= script %>"></script>
<% } %>
</head>
<body>
<a class="skip" href="#main">Skip to the content</a>
<header class="top">
<a class="brand" href="/"><%~ it.mark %>Latchkey</a>
<% if (it.frame.email !== undefined) { %>
<nav class="person" aria-label="You">
<a href="/account" dir="auto"><%= it.frame.email %></a>
<form method="post" action="/sign-out">
<%~ include('@guard', it.frame) %>
<button class="quiet">Sign out</button>
</form>
</nav>
<% } %>
</header>
<main id="main" class="<%= it.width %>">
<%~ it.body %>
</main>
<footer class="small">Request <code><%= it.frame.requestId %></code></footer>
</body>
</html>
`;
