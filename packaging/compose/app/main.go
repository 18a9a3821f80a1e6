// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Command moderated-comments is a page on which people leave comments. It keeps the last of them in memory. It contains
// nothing about moderation except that it shows which comments the guard recommends for a review: the guard stands in
// front of it.
package main

import (
	"context"
	"errors"
	"html/template"
	"log"
	"net/http"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

type comment struct {
	Name, Text string
	Review     bool
}

// keep is how many comments are kept.
const keep = 100

type page struct {
	mu       sync.Mutex
	comments []comment // the newest first
}

var view = template.Must(template.New("page").Parse(`<!doctype html>
<meta charset="utf-8">
<title>Comments</title>
<h1>Comments</h1>
<form method="post">
  <p><label>Name <input name="name" required></label>
  <p><label>Comment <textarea name="comment" required></textarea></label>
  <p><button>Send</button>
</form>
{{range .}}<p><b>{{.Name}}</b>{{if .Review}} (waits for a review){{else}}: {{.Text}}{{end}}
{{else}}<p>Nobody has written yet.
{{end}}`))

func (p *page) show(w http.ResponseWriter, _ *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if err := view.Execute(w, p.comments); err != nil {
		log.Print(err)
	}
}

func (p *page) add(w http.ResponseWriter, r *http.Request) {
	c := comment{
		Name:   r.PostFormValue("name"),
		Text:   r.PostFormValue("comment"),
		Review: r.Header.Get("X-Moderation-Recommendation") == "review",
	}
	if c.Name == "" || c.Text == "" {
		http.Error(w, "A comment needs a name and a text.", http.StatusBadRequest)
		return
	}
	p.mu.Lock()
	p.comments = append([]comment{c}, p.comments[:min(len(p.comments), keep-1)]...)
	p.mu.Unlock()
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	p := &page{}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", p.show)
	mux.HandleFunc("POST /{$}", p.add)
	server := &http.Server{Addr: ":3000", Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		<-ctx.Done()
		_ = server.Shutdown(context.Background())
	}()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		log.Fatal(err)
	}
}
