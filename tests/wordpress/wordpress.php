<?php
/**
 * As much of WordPress as the plugin asks for, for one request. Reads {"time", "status", "constants", "steps"} and prints
 * {"requests", "retries", "log"}. A step is one call of what follows below, with its arguments.
 */
error_reporting( E_ALL );
set_error_handler( function ( $level, $text, $file, $line ) { throw new ErrorException( $text, 0, $level, $file, $line ); } );

define( 'ABSPATH', '/' );
$given    = json_decode( file_get_contents( 'php://stdin' ), true, 64, JSON_THROW_ON_ERROR );
$hooks    = array();
$posts    = array();
$requests = array();
$retries  = array();
$log      = tempnam( sys_get_temp_dir(), 'log' );
ini_set( 'error_log', $log );

class WP_Error { public function get_error_message() { return 'Connection refused'; } }

function add_action( $name, $function, $priority = 10, $arguments = 1 ) { $GLOBALS['hooks'][ $name ][] = array( $function, $arguments ); }
function do_action( $name, ...$arguments ) {
	foreach ( $GLOBALS['hooks'][ $name ] ?? array() as list( $function, $taken ) ) {
		$function( ...array_slice( $arguments, 0, $taken ) );
	}
}
function add_filter( $name, $function, $priority = 10, $arguments = 1 ) { add_action( $name, $function, $priority, $arguments ); }
function apply_filters( $name, $value, ...$more ) {
	foreach ( $GLOBALS['hooks'][ $name ] ?? array() as list( $function, $taken ) ) {
		$value = $function( ...array_slice( array( $value, ...$more ), 0, $taken ) );
	}
	return $value;
}
function get_post( $id ) { return $GLOBALS['posts'][ is_object( $id ) ? $id->ID : $id ] ?? null; }
function get_post_status( $id ) { return get_post( $id )->post_status; }
function get_permalink( $post ) { return 'https://www.example.com/' . get_post( $post )->post_name . '/'; }
function get_post_meta( $id, $key, $single ) { return get_post( $id )->meta[ $key ] ?? ''; }
function get_the_post_thumbnail_url( $post, $size ) { return $post->thumbnail ?? false; }
function get_the_terms( $post, $taxonomy ) {
	$names = $post->terms[ $taxonomy ] ?? array();
	return $names ? array_map( fn( $name ) => (object) compact( 'name' ), $names ) : false;
}
function wp_list_pluck( $list, $field ) { return array_map( fn( $item ) => $item->$field, $list ); }
function is_multisite() { return defined( 'BLOG' ); }
function get_current_blog_id() { return BLOG; }
function wp_generate_uuid4() { return '00000000-0000-4000-8000-' . str_pad( (string) count( $GLOBALS['requests'] ), 12, '0', STR_PAD_LEFT ); }
function wp_json_encode( $value ) { return json_encode( $value ); }
function is_wp_error( $value ) { return $value instanceof WP_Error; }
function wp_remote_post( $url, $asked ) {
	$GLOBALS['requests'][] = array( 'url' => $url ) + $asked;
	return $GLOBALS['given']['status'] ? array( 'status' => $GLOBALS['given']['status'] ) : new WP_Error();
}
function wp_remote_retrieve_response_code( $answer ) { return $answer['status']; }
function wp_remote_retrieve_body( $answer ) { return '{"status": "refused"}'; }
function wp_schedule_single_event( $at, $hook, $arguments ) { $GLOBALS['retries'][] = array( 'in_s' => $at - time(), 'arguments' => $arguments ); }

/** A post as it is before the request. */
function there_is( $post ) {
	$GLOBALS['posts'][ $post['ID'] ] = (object) ( $post + array(
		'post_type'         => 'post',
		'post_status'       => 'publish',
		'post_title'        => 'Flood closes the harbour',
		'post_name'         => 'flood',
		'post_password'     => '',
		'post_date_gmt'     => '2026-11-20 08:00:00',
		'post_modified_gmt' => '2026-11-20 08:30:00',
		'meta'              => array(),
		'terms'             => array(),
	) );
}
/** As wp_insert_post() calls the hooks of a new post. */
function insert( $post ) {
	there_is( $post );
	do_action( 'wp_after_insert_post', $post['ID'], get_post( $post['ID'] ), false, null );
}
/** As wp_update_post() calls them, for the bin as well. */
function update( $changes ) {
	$before = clone get_post( $changes['ID'] );
	do_action( 'pre_post_update', $changes['ID'], $changes );
	there_is( $changes + (array) $before );
	do_action( 'wp_after_insert_post', $changes['ID'], get_post( $changes['ID'] ), true, $before );
}
function delete( $id ) {
	do_action( 'before_delete_post', $id, get_post( $id ) );
	unset( $GLOBALS['posts'][ $id ] );
}
/** As the clock tries again what was not taken. */
function again( $id, $body, $retries ) { do_action( 'stoppress_send', $id, $body, $retries ); }
/** A filter of the newsroom's own, which sends nothing of a section. */
function leave_out( $section ) {
	add_filter( 'stoppress_data', fn( $data ) => ( $data['section'] ?? '' ) === $section ? null : $data );
}

foreach ( $given['constants'] as $name => $value ) {
	define( $name, $value );
}
require $argv[1];
foreach ( $given['steps'] as list( $step, $argument ) ) {
	'again' === $step ? again( ...$argument ) : $step( $argument );
}
do_action( 'shutdown' );
echo json_encode( array( 'requests' => $requests, 'retries' => $retries, 'log' => file_get_contents( $log ) ) );
unlink( $log );
