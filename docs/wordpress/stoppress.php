<?php
/**
 * Plugin Name: Stoppress
 * Description: Sends an event to Stoppress when a post is published, edited, moved, unpublished or deleted.
 * Version: 1.0
 * Requires at least: 5.6
 * Requires PHP: 7.4
 *
 * Goes into wp-content/mu-plugins/. In wp-config.php:
 *
 *     define( 'STOPPRESS_URL', 'https://<api>/webhooks/<host>/<source>' );
 *     define( 'STOPPRESS_SECRET', 'whsec_…' );
 *
 * STOPPRESS_TYPES names the post types to send, separated by commas; the default is 'post'. The type `page` is sent as a
 * page that is no article. The filter `stoppress_data` may change the data of a post; null stops the event.
 */

defined( 'ABSPATH' ) || exit;

const STOPPRESS_RETRIES_MAX = 6; // after 1, 5, 25, 125, 625 and 3,125 minutes: 2.7 days in all

/** Keeps a post's URL from before the change, because WordPress does not keep it. */
add_action( 'pre_post_update', function ( $id ) {
	if ( 'publish' === get_post_status( $id ) ) {
		stoppress_old_url( $id, get_permalink( $id ) );
	}
} );

/** WordPress calls this after it has saved a post, its terms and its meta data: from any editor, on schedule, or into the bin. */
add_action( 'wp_after_insert_post', function ( $id, $post, $update, $before ) {
	$post = get_post( $id ); // The argument is older if a plugin has saved the post again in `save_post`.
	$was  = stoppress_is_public( $before );
	if ( stoppress_is_public( $post ) ) {
		stoppress_queue( $post, $was ? 'updated' : 'published', stoppress_data( $post ) );
	} elseif ( $was ) {
		stoppress_queue( $before, 'unpublished', array() );
	}
}, 99, 4 );

/** WordPress calls this before it deletes a post for good, from the bin or directly. */
add_action( 'before_delete_post', function ( $id, $post = null ) {
	$post = $post ? $post : get_post( $id );
	if ( $post && stoppress_is_sent( $post ) && in_array( $post->post_status, array( 'publish', 'trash' ), true ) ) {
		stoppress_queue( $post, 'deleted', array() );
	}
}, 10, 2 );

/** Sends one event for each changed post. With PHP-FPM, the editor gets the answer first. */
add_action( 'shutdown', function () {
	$waiting = stoppress_waiting();
	if ( $waiting && function_exists( 'fastcgi_finish_request' ) ) {
		fastcgi_finish_request();
	}
	foreach ( $waiting as $body ) {
		stoppress_send( 'msg_' . wp_generate_uuid4(), wp_json_encode( $body ), 0 );
	}
} );

add_action( 'stoppress_send', 'stoppress_send', 10, 3 );

/** Whether the plugin sends posts of this type. */
function stoppress_is_sent( $post ) {
	$types = explode( ',', defined( 'STOPPRESS_TYPES' ) ? STOPPRESS_TYPES : 'post' );
	return in_array( $post->post_type, array_map( 'trim', $types ), true );
}

/** Whether a post is published, of a type that the plugin sends. */
function stoppress_is_public( $post ) {
	return $post && 'publish' === $post->post_status && stoppress_is_sent( $post );
}

/** A post as the `data` of an event in Stoppress's contract. */
function stoppress_data( $post ) {
	$noindex = '1' === (string) get_post_meta( $post->ID, '_yoast_wpseo_meta-robots-noindex', true )
		|| in_array( 'noindex', (array) get_post_meta( $post->ID, 'rank_math_robots', true ), true )
		|| 'yes' === get_post_meta( $post->ID, '_seopress_robots_index', true );
	$canonical = get_post_meta( $post->ID, '_yoast_wpseo_canonical', true )
		?: get_post_meta( $post->ID, 'rank_math_canonical_url', true )
		?: get_post_meta( $post->ID, '_seopress_robots_canonical', true );
	$image     = get_the_post_thumbnail_url( $post, 'full' );
	$old_url   = stoppress_old_url( $post->ID );
	$url       = get_permalink( $post );
	// A draft has no UTC date, and wp_publish_post() sets none.
	$published = stoppress_instant( $post->post_date_gmt ) ?? stoppress_instant( get_gmt_from_date( $post->post_date ) );
	return array(
		'url'           => $url,
		'title'         => stoppress_plain( $post->post_title ),
		'published_at'  => $published,
		'updated_at'    => stoppress_instant( $post->post_modified_gmt ),
		'section'       => stoppress_terms( $post, 'category' )[0] ?? null,
		'keywords'      => stoppress_terms( $post, 'post_tag' ),
		'access'        => '' === $post->post_password ? 'public' : 'protected',
		'noindex'       => $noindex,
		'canonical_url' => $canonical ?: null,
		'previous_urls' => $old_url && $old_url !== $url ? array( $old_url ) : array(),
		'images'        => $image ? array( $image ) : array(),
	);
}

/** Keeps a post's last event until the end of the request. An update after a publication stays a publication. */
function stoppress_queue( $post, $event, $data ) {
	$data = apply_filters( 'stoppress_data', $data, $post, $event );
	if ( null === $data ) {
		return;
	}
	$now = stoppress_now();
	// Without the blog's id, two sites of a Multisite network on one host would have equal ids.
	$id   = is_multisite() ? get_current_blog_id() . '-' . $post->ID : (string) $post->ID;
	$kind = 'page' === $post->post_type ? 'page' : 'article';
	$was  = stoppress_waiting()[ $id ]['type'] ?? '';
	if ( 'updated' === $event && "$kind.published" === $was ) {
		$event = 'published';
	}
	$data['id']      = $id;
	$data['version'] = $now;
	stoppress_waiting( $id, array( 'type' => "$kind.$event", 'timestamp' => $now, 'data' => $data ) );
}

/** Signs and posts an event. Schedules the next attempt if a later one may succeed. */
function stoppress_send( $id, $body, $retries ) {
	if ( ! defined( 'STOPPRESS_URL' ) || ! defined( 'STOPPRESS_SECRET' ) ) {
		error_log( 'Stoppress: STOPPRESS_URL or STOPPRESS_SECRET is missing in wp-config.php' );
		return;
	}
	$at        = (string) time();
	$key       = base64_decode( preg_replace( '/^whsec_/', '', STOPPRESS_SECRET ) );
	$signature = base64_encode( hash_hmac( 'sha256', "$id.$at.$body", $key, true ) );
	$answer    = wp_remote_post( STOPPRESS_URL, array(
		'timeout' => 10,
		'headers' => array(
			'content-type'      => 'application/json',
			'webhook-id'        => $id,
			'webhook-timestamp' => $at,
			'webhook-signature' => "v1,$signature",
		),
		'body'    => $body,
	) );
	$status = is_wp_error( $answer ) ? 0 : (int) wp_remote_retrieve_response_code( $answer );
	if ( 200 === $status ) {
		return;
	}
	error_log( "Stoppress: $status " . ( 0 === $status ? $answer->get_error_message() : wp_remote_retrieve_body( $answer ) ) );
	$may_be_taken_later = 0 === $status || 429 === $status || $status >= 500;
	if ( $may_be_taken_later && $retries < STOPPRESS_RETRIES_MAX ) {
		wp_schedule_single_event( time() + 60 * 5 ** $retries, 'stoppress_send', array( $id, $body, $retries + 1 ) );
	}
}

/** The events that wait for the end of the request, by article id. With two arguments, adds an event. */
function stoppress_waiting( $id = null, $body = null ) {
	static $waiting = array();
	if ( null !== $id ) {
		$waiting[ $id ] = $body;
	}
	return $waiting;
}

/** The URL that a post had when this request began. With two arguments, keeps the URL, unless one is kept already. */
function stoppress_old_url( $id, $url = null ) {
	static $urls = array();
	if ( null !== $url ) {
		$urls[ $id ] = $urls[ $id ] ?? $url;
	}
	return $urls[ $id ] ?? null;
}

/** The current time with microseconds, so that two changes within one second differ. */
function stoppress_now() {
	return ( new DateTimeImmutable( 'now', new DateTimeZone( 'UTC' ) ) )->format( 'Y-m-d\TH:i:s.u\Z' );
}

/** A UTC date of the database as ISO 8601, or null if it is empty. */
function stoppress_instant( $gmt ) {
	return '0000-00-00 00:00:00' === $gmt ? null : str_replace( ' ', 'T', $gmt ) . 'Z';
}

/** The names of a post's terms. */
function stoppress_terms( $post, $taxonomy ) {
	$terms = get_the_terms( $post, $taxonomy );
	return is_array( $terms ) ? array_map( 'stoppress_plain', array_values( wp_list_pluck( $terms, 'name' ) ) ) : array();
}

/** An HTML text of WordPress as plain text, which Stoppress's contract takes. */
function stoppress_plain( $html ) {
	$text = preg_replace( array( '~<br\b[^<>]*>~i', '~<[/!]?[a-z][^<>]*>~i' ), array( ' ', '' ), $html );
	return html_entity_decode( $text, ENT_QUOTES | ENT_HTML5, 'UTF-8' );
}
