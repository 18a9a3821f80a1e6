// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package desk

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"net/http"
	"path"
	"strings"
	"sync"

	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/response"
)

//go:embed assets
var assetFiles embed.FS

// assetTypes are the media types by the ends of names.
var assetTypes = map[string]string{
	".css": "text/css; charset=utf-8", ".mjs": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
}

// assets are the embedded files. Their names have a hash of their content, so that browsers may keep them for ever.
var assets = sync.OnceValue(func() (all struct {
	names   map[string]string // with the hash, by the name without
	content map[string][]byte // by the name with the hash
}) {
	all.names, all.content = map[string]string{}, map[string][]byte{}
	files, err := assetFiles.ReadDir("assets")
	if err != nil {
		panic(err) // the files are in the binary
	}
	for _, file := range files {
		content, err := assetFiles.ReadFile("assets/" + file.Name())
		if err != nil {
			panic(err)
		}
		hash := sha256.Sum256(content)
		extension := path.Ext(file.Name())
		hashed := strings.TrimSuffix(file.Name(), extension) + "." + hex.EncodeToString(hash[:8]) + extension
		all.names[file.Name()], all.content[hashed] = hashed, content
	}
	return all
})

// serveAsset serves an embedded file to anyone: it says nothing about the service.
func serveAsset(c *call) error {
	content, ok := assets().content[c.values["asset"]]
	if !ok {
		return refuse(http.StatusNotFound, "error.missing")
	}
	c.w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	c.w.Header().Del("Vary")
	response.Send(c.w, c.r, http.StatusOK, assetTypes[path.Ext(c.values["asset"])], content)
	return nil
}
