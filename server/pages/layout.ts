/** What stands around every page. */
export const layout = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title><%= it.title %> · Latchkey</title>
<% if (it.navigation) { %>
<meta name="htmx-config" content='{"includeIndicatorCSS":false,"history":false,"extensions":""}'>
<% } %>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="<%= it.stylesheet %>">
<% for (const script of it.frame.scripts) { %>
<script type="module" src="<%= script %>" integrity="<%= it.integrityOf(script) %>"></script>
<% } %>
</head>
<body<% if (it.navigation) { %> class="dashboard"<% if (it.frame.dashboard.live) { %> data-live="<%= it.frame.dashboard.live %>"<% } %><% } %>>
<a class="skip" href="#main">Skip to the content</a>
<header class="top">
<a class="brand" href="/"><%~ it.mark %>Latchkey</a>
<% if (it.navigation) { %><%~ include('@switcher', it.navigation) %><% } %>
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
<% if (it.navigation) { %><%~ include('@side', it.navigation) %><% } %>
<main id="main" class="<%= it.width %>">
<% if (it.navigation) { %><%~ include('@crumbs', it.navigation) %><% } %>
<%~ it.body %>
</main>
<footer class="small">Request <code><%= it.frame.requestId %></code></footer>
</body>
</html>
`;
