# SPDX-FileCopyrightText: 2026 The caddy-moderation authors
# SPDX-License-Identifier: Apache-2.0

# An app that answers with what it understood of each request: puma -b tcp://127.0.0.1:3000 parsers.ru. The answer is as in
# ../node/parsers.mjs.

require "json"
require "sinatra/base"

class Parsers < Sinatra::Base
  set :environment, :production
  set :logging, false
  set :show_exceptions, false
  disable :protection

  def text(bytes)
    bytes.dup.force_encoding("UTF-8").scrub
  end

  # leaves adds the strings of a value and the names of its members to texts; a file is a hash with a :tempfile.
  def leaves(value, texts, files, name = nil)
    case value
    when String then texts << text(value)
    when Hash
      if value.key?(:tempfile) || value.key?("tempfile")
        files << text(name.to_s)
        texts << text((value[:filename] || value["filename"]).to_s)
        return
      end
      value.each do |key, member|
        texts << text(key.to_s)
        leaves(member, texts, files, key)
      end
    when Array then value.each { |member| leaves(member, texts, files, name) }
    end
  end

  def read
    texts = []
    files = []
    leaves(params.to_h, texts, files)
    request.body.rewind
    body = request.body.read
    begin
      leaves(JSON.parse(text(body)), texts, files)
    rescue JSON::ParserError
    end
    type = request.content_type.to_s
    texts << text(body) if (type.empty? && body.dup.force_encoding("UTF-8").valid_encoding?) || type.downcase.start_with?("text/")
    content_type "application/json"
    JSON.generate({ texts: texts, files: files, status: env["HTTP_X_MODERATION_STATUS"].to_s })
  end

  %i[get post put patch delete].each { |verb| send(verb, "/*") { read } }
end

run Parsers
