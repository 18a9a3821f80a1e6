<?php
// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// An app that answers with what it understood of each request: php -S 127.0.0.1:3000 parsers.php. The answer is as in
// ../node/parsers.mjs.

function leaves($value, array &$texts): void
{
    if (is_string($value)) {
        $texts[] = $value;
    } elseif (is_array($value)) {
        foreach ($value as $name => $member) {
            $texts[] = (string) $name;
            leaves($member, $texts);
        }
    }
}

$understood = [$_POST];
$files = [];
foreach ($_FILES as $name => $file) {
    $files[] = (string) $name;
    $understood[] = [(string) $name, $file['name']];
}
$body = file_get_contents('php://input');
$understood[] = json_decode($body, true, 2000);
$type = $_SERVER['CONTENT_TYPE'] ?? '';
if (($type === '' && preg_match('//u', $body)) || stripos($type, 'text/') === 0) {
    $understood[] = $body;
}
$texts = [];
leaves($understood, $texts);
header('Content-Type: application/json');
echo json_encode(
    ['texts' => $texts, 'files' => $files, 'status' => $_SERVER['HTTP_X_MODERATION_STATUS'] ?? ''],
    JSON_INVALID_UTF8_SUBSTITUTE
);
