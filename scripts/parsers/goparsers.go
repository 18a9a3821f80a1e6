// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"strings"
	"unicode/utf8"
)

// startGo serves the parsers of Go's standard library, in this process.
func startGo(address string) (stop func(), err error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	server := &http.Server{Handler: http.HandlerFunc(understandByGo)}
	go func() { _ = server.Serve(listener) }()
	return func() { server.Close() }, nil
}

// understandByGo answers as node/parsers.mjs does.
func understandByGo(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	u := &understanding{Texts: []string{}, Files: []string{}, Status: r.Header.Get("X-Moderation-Status")}
	again := func() { r.Body = io.NopCloser(bytes.NewReader(body)) }

	again()
	_ = r.ParseMultipartForm(1 << 20)
	u.values(r.PostForm)
	if r.MultipartForm != nil {
		u.values(r.MultipartForm.Value)
		for name, files := range r.MultipartForm.File {
			u.Files = append(u.Files, name)
			u.Texts = append(u.Texts, name)
			for _, file := range files {
				u.Texts = append(u.Texts, file.Filename)
			}
		}
		_ = r.MultipartForm.RemoveAll()
	}

	// Apps that stream read the parts one by one, and use those before an error.
	r.MultipartForm, r.PostForm = nil, nil
	again()
	if parts, err := r.MultipartReader(); err == nil {
		u.parts(parts)
	}

	// An app that decodes JSON hardly ever checks the type.
	var value any
	if json.NewDecoder(bytes.NewReader(body)).Decode(&value) == nil {
		u.leaves(value)
	}
	if kind := strings.ToLower(r.Header.Get("Content-Type")); kind == "" && utf8.Valid(body) ||
		strings.HasPrefix(kind, "text/") {
		u.Texts = append(u.Texts, string(body))
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(u)
}

func (u *understanding) values(values map[string][]string) {
	for name, list := range values {
		u.Texts = append(append(u.Texts, name), list...)
	}
}

func (u *understanding) parts(parts *multipart.Reader) {
	for {
		part, err := parts.NextPart()
		if err != nil {
			return
		}
		name, file := part.FormName(), part.FileName()
		u.Texts = append(u.Texts, name, file)
		if file != "" {
			u.Files = append(u.Files, name)
			continue
		}
		value, err := io.ReadAll(part)
		if err == nil && name != "" {
			u.Texts = append(u.Texts, string(value))
		}
	}
}

func (u *understanding) leaves(value any) {
	switch v := value.(type) {
	case string:
		u.Texts = append(u.Texts, v)
	case []any:
		for _, member := range v {
			u.leaves(member)
		}
	case map[string]any:
		for name, member := range v {
			u.Texts = append(u.Texts, name)
			u.leaves(member)
		}
	}
}
